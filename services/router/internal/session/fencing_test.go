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

// TestABlockOnAReplicaKnowsItsTimeline: what a transaction reads on a replica after it has
// moved together with its connection is of the timeline of that one's server.
func TestABlockOnAReplicaKnowsItsTimeline(t *testing.T) {
	p := newPlay(t, 0)
	rec := record()
	rec.Live = &handoff.Live{
		Status: "T", Block: &handoff.Block{State: "begun", Begin: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", Ran: true, Timeline: 3},
		Leases: []handoff.Lease{{Replica: true, Run: lsn.Incarnation{SystemID: 7, Timeline: 3, Postmaster: 1, Children: 1}}},
	}
	g := p.grant([]string{"replica"})
	p.o.lent[session.ReplicaSlot] = true
	p.o.s = session.Arrive(rec, p.o, session.Arrival{Lease: g})
	for _, e := range []string{
		"set read-only-on-replicas=on", "start", `known "SELECT 1" read`, `client Query "SELECT 1"`,
		`replica CommandComplete "SELECT 1" ReadyForQuery T`,
	} {
		t.Log(p.event(e))
	}
	if p.o.s.Parted(fence.Server{Backend: 0, Run: 1}, 3) {
		t.Error("the primary is on the timeline that was read: nothing is lost")
	}
}
