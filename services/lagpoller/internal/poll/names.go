package poll

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/probe"
)

// compare warns of databases and users of the configuration that the primary does not
// have. For a database nobody else would: what is said of one holds for nobody, and the
// sessions that were meant are served as all others. It is done for each configuration and
// for each connection, once for the same names. Without an answer nothing is known.
func (p *poller) compare(s Settings) {
	missing, err := p.conn.Missing(s.Named, s.Timeout)
	p.compared = err == nil || probe.Refused(err)
	if err != nil {
		p.log.Debug("cannot compare the names in the configuration", obs.KeyError, err)
		if !probe.Refused(err) {
			p.hangUp() // its answer may still come
		}
		return
	}
	complaint := complaintOf(s.Named, missing)
	if complaint != "" && complaint != p.misnamed {
		p.log.Warn("the primary does not have what the configuration names: create it, or correct the name", "names", complaint)
	}
	p.misnamed = complaint
}

// complaintOf says which keys give the names that are missing.
func complaintOf(named, missing probe.Names) string {
	var keys []string
	for i, name := range named.Databases {
		if slices.Contains(missing.Databases, name) {
			keys = append(keys, fmt.Sprintf("databases[%d].name %q", i, name))
		}
	}
	for i, name := range named.Roles {
		if slices.Contains(missing.Roles, name) {
			keys = append(keys, fmt.Sprintf("users[%d].name %q", i, name))
		}
	}
	return strings.Join(keys, ", ")
}
