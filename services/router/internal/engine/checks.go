//go:build pgpilot_checks

package engine

import "fmt"

// checkPooled panics if a connection comes back to the pool that is not at rest. It
// is not part of programs that serve clients.
func (s *server) checkPooled() {
	what := ""
	switch {
	case s.owner != nil:
		what = "a session has it"
	case s.resetting:
		what = "it is being reset"
	case s.used || s.stepped:
		what = "it must be reset"
	case s.cancels > 0:
		what = "a cancel request may reach it"
	case len(s.out) > 0:
		what = "something is not sent"
	case len(s.unread) > 0:
		what = "something is not read"
	default:
		return
	}
	panic(fmt.Sprintf("connection %d to %s comes back to the pool while %s", s.pid, s.site.key.Database, what))
}
