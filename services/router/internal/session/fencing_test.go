package session_test

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// TestWhatWasReadAsideTravels: the primary is used behind the barrier by a session that
// had read a replica before it came here, too.
func TestWhatWasReadAsideTravels(t *testing.T) {
	for _, aside := range []bool{false, true} {
		rec := record()
		rec.Live = &handoff.Live{Status: "I", Fence: handoff.Fence{Aside: aside}}
		s := session.Arrive(rec, &steady{}, session.Arrival{})
		s.Start(nil)
		if _, got := s.Aside(); got != aside {
			t.Errorf("a session that came with %v has %v", aside, got)
		}
		if got := s.Depart().Live.Fence.Aside; got != aside {
			t.Errorf("a session that came with %v leaves with %v", aside, got)
		}
	}
}
