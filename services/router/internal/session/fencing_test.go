package session_test

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
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

// TestABlockRemembersWhatItHasSeen: a transaction that has read a replica of one timeline
// and goes on on the primary of another is told that this may be lost, once, in every
// mode, and wherever it has moved meanwhile.
func TestABlockRemembersWhatItHasSeen(t *testing.T) {
	arrive := func(timeline lsn.Timeline) *session.Session {
		rec := record()
		rec.Live = &handoff.Live{Status: "T", Block: &handoff.Block{State: "opened", Begin: "BEGIN READ ONLY", Ran: true, Timeline: timeline}}
		s := session.Arrive(rec, &steady{}, session.Arrival{})
		s.Start(nil)
		return s
	}
	primary := fence.Server{Backend: 0, Run: 1}
	if s := arrive(3); s.Parted(primary, 3) {
		t.Error("the primary is on the timeline that was read: nothing is lost")
	}
	s := arrive(2)
	moved := s.Depart().Live.Block
	if moved.Timeline != 2 {
		t.Errorf("it leaves with timeline %d, want 2", moved.Timeline)
	}
	s = arrive(moved.Timeline)
	if !s.Parted(primary, 3) {
		t.Error("what was read on the timeline before may be lost")
	}
	if s.Parted(primary, 3) {
		t.Error("it is said twice")
	}
}
