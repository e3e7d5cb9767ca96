package cluster

import (
	"fmt"
	"strings"

	"github.com/pgpilot/pgpilot/libs/bus"
)

// Ailments says in a sentence for the operator what is wrong with the servers, nothing
// if all are well and one of them is the primary.
func Ailments(s bus.LagSnapshot, t bus.Topology) string {
	var ills []string
	for _, l := range s.Backends {
		switch {
		case l.Healthy && l.Role == bus.Primary && l.Backend != t.Primary:
			ills = append(ills, fmt.Sprintf("%s (%s) answers as a primary but is not the one that is written to: stop it, and rebuild it as a replica", l.Backend, l.Address))
		case l.Healthy:
		case l.Error != "":
			ills = append(ills, fmt.Sprintf("%s (%s): %s", l.Backend, l.Address, l.Error))
		default:
			ills = append(ills, fmt.Sprintf("%s (%s) is not healthy", l.Backend, l.Address))
		}
	}
	if t.Primary == "" {
		ills = append(ills, "no server is known to be the primary")
	}
	return strings.Join(ills, "; ")
}
