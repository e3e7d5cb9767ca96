package upstream

import (
	"slices"
	"strings"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

// Login is who connects, to what, and how: connections of one Login may stand in
// for each other.
type Login struct {
	User     string
	Database string
	// Startup are the client's startup parameters, encoded by EncodeStartup: two
	// clients share connections only if they asked for the same ones.
	Startup string
}

// Made is a finished connection: its descriptor and what the server said. The
// receiver owns the descriptor.
type Made struct {
	FD int
	// Relayed says that it is the end of a relay to a TLS connection, whose state is this
	// process's.
	Relayed bool
	// PID and Secret are the server's cancel key.
	PID    uint32
	Secret []byte
	// Run tells the run of the server; its timeline is not known here.
	Run lsn.Incarnation
	// Parameters are the ParameterStatus values after login.
	Parameters []handoff.Parameter
	// Beginnings are what transactions on it begin with; nil if that is not known.
	Beginnings *Beginnings
	// Stored identifies what was stored for the role and the database just after the login
	// (see Connector.Stored); empty if that is not known.
	Stored string
	// Standby says that the server was in recovery just after the login.
	Standby bool
	// At is when the login was through. Run was seen after that.
	At time.Time
}

// reportsRecovery says what the server reports of itself (PostgreSQL documentation, "Preset
// Options": in_hot_standby, from release 14 on).
func (m *Made) reportsRecovery() bool {
	return slices.Contains(m.Parameters, handoff.Parameter{Name: "in_hot_standby", Value: "on"})
}

// EncodeStartup makes startup parameters comparable.
func EncodeStartup(ps []handoff.Parameter) string {
	n := 0
	for _, p := range ps {
		n += len(p.Name) + len(p.Value) + 2
	}
	b := make([]byte, 0, n)
	for _, p := range ps {
		b = append(append(b, p.Name...), 0)
		b = append(append(b, p.Value...), 0)
	}
	return string(b)
}

// DecodeStartup undoes EncodeStartup.
func DecodeStartup(s string) []handoff.Parameter {
	var out []handoff.Parameter
	for s != "" {
		name, rest, _ := strings.Cut(s, "\x00")
		value, rest, _ := strings.Cut(rest, "\x00")
		out = append(out, handoff.Parameter{Name: name, Value: value})
		s = rest
	}
	return out
}
