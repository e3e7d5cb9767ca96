//go:build pgpilot_checks

package session

import (
	"fmt"
)

// checkRelease panics if a connection that another session may get next owes
// something, or is owed something: the next session would be given answers of this
// one. It is not part of programs that serve clients, where it would end all
// sessions for the fault of one.
func (s *Session) checkRelease(slot Slot, how Condition) {
	if how == Broken || slot != s.at {
		return
	}
	a := &s.owed
	what := ""
	switch {
	case s.inTransaction() && how != Open:
		what = "a transaction is open"
	case !a.empty():
		what = "answers are outstanding"
	case a.open:
		what = "a sequence is open"
	case a.copying:
		what = "data is copied in"
	case a.unsure > 0:
		what = "a Sync may be answered yet"
	case s.fromServer > 0:
		what = "half a message of the server has come"
	case s.fromClient > 0 && !s.discard:
		what = "half a message of the client has been sent"
	case s.missing != nil:
		what = "a statement is being prepared"
	case s.retreating:
		what = "a failed read's answer is being skipped"
	default:
		return
	}
	panic(fmt.Sprintf("session %s releases its %s connection %s while %s (%s)", s.rec.Session, slot, how, what, s.phase))
}
