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
	case s.used:
		what = "it must be reset"
	case s.cancels > 0:
		what = "a cancel request may reach it"
	case len(s.out) > 0:
		what = "something is not sent"
	case len(s.unread) > 0:
		what = "something is not read"
	default:
		if idle, lent, _ := s.site.Counts(); idle+lent != len(s.site.servers) {
			panic(fmt.Sprintf("the pool of %s counts %d idle and %d lent connections, and there are %d", s.site.key.Database, idle, lent, len(s.site.servers)))
		}
		return
	}
	panic(fmt.Sprintf("connection %d to %s comes back to the pool while %s", s.pid, s.site.key.Database, what))
}
