package fence

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

var (
	replica = Server{Backend: 1, Run: 1}
	other   = Server{Backend: 2, Run: 1}
)

func TestReadsOnOneServerNeedNoBound(t *testing.T) {
	var s State
	if s.Saw(replica, 1) {
		t.Fatal("the first read is no move")
	}
	if to, bound := s.Bound(); !bound || to != replica {
		t.Fatalf("bound %v to %v, want to the replica", bound, to)
	}
	if !s.Ready(replica) || s.Ready(other) || s.Ready(primary) {
		t.Fatal("only the same run of the same server shows at least the same")
	}
	if restarted := (Server{Backend: 1, Run: 2}); s.Ready(restarted) {
		t.Fatal("a replica that has restarted may show less")
	}
	if s.Saw(replica, 1) {
		t.Fatal("it has not moved")
	}
}

// The probe must start after the read has ended: a mark taken before says nothing
// of what it saw.
func TestLeavingAServerNeedsAProbeFromAfterTheRead(t *testing.T) {
	var s State
	early := s.Mark()
	s.Saw(replica, 1)
	s.Settle(early, at(100), primary)
	if s.Ready(other) {
		t.Fatal("a probe from before the read's end bounds nothing")
	}
	s.Saw(replica, 1)
	mark := s.Mark()
	s.Saw(replica, 1)
	s.Settle(mark, at(110), primary)
	if s.Ready(other) {
		t.Fatal("the last read is not covered")
	}
	if !s.Settle(s.Mark(), at(120), primary) || !s.Ready(other) || s.Position() != at(120) {
		t.Fatalf("ready %v at %v, want 120", s.Ready(other), s.Position())
	}
	if _, bound := s.Bound(); bound {
		t.Fatal("it may go anywhere that has replayed 120")
	}
	if !s.Saw(other, 1) {
		t.Fatal("it has moved")
	}
	if s.Ready(replica) {
		t.Fatal("and may go back only behind a probe")
	}
}

// What was seen on a timeline that a failover has ended may be lost.
func TestWhatWasSeenMayBeLost(t *testing.T) {
	for name, c := range map[string]struct {
		by   Server
		on   lsn.Timeline
		at   lsn.Position
		from Server
		sure bool
	}{
		"replica, same timeline":           {replica, 1, at(100), primary, true},
		"replica, the primary restarted":   {replica, 1, at(100), Server{Backend: 0, Run: 2}, true},
		"replica, another timeline":        {replica, 1, lsn.Position{Timeline: 2, LSN: 100}, other, false},
		"primary, the same run":            {primary, 0, at(100), primary, true},
		"primary, it crashed":              {primary, 0, at(100), Server{Backend: 0, Run: 2}, false},
		"primary, another one is promoted": {primary, 0, lsn.Position{Timeline: 2, LSN: 100}, other, false},
	} {
		var s State
		s.Saw(c.by, c.on)
		if got := s.Settle(s.Mark(), c.at, c.from); got != c.sure {
			t.Errorf("%s: sure %v, want %v", name, got, c.sure)
		}
		if !s.Ready(other) {
			t.Errorf("%s: the session must go on", name)
		}
	}
}

func TestALinearReadWaitsForAProbeFromAfterItsArrival(t *testing.T) {
	var s State
	early := s.Mark()
	s.Arrived()
	mark := s.Mark()
	s.Settle(early, at(100), primary)
	if s.Ready(replica) || s.Dirty() {
		t.Fatal("the read waits, and no write does")
	}
	s.Settle(mark, at(110), primary)
	if !s.Ready(replica) || s.Position() != at(110) {
		t.Fatalf("ready %v at %v, want 110", s.Ready(replica), s.Position())
	}
	s.Arrived()
	if s.Ready(replica) {
		t.Fatal("each read waits for a probe of its own time")
	}
}

func TestATokenOnlyRaises(t *testing.T) {
	s := Arrive(Baggage{Position: at(100)})
	s.Raise(at(50))
	if s.Position() != at(100) {
		t.Fatalf("lowered to %v", s.Position())
	}
	s.Raise(at(150))
	if s.Position() != at(150) {
		t.Fatalf("%v, want 150", s.Position())
	}
}

func TestTheStateAllocatesNothing(t *testing.T) {
	var s State
	if n := testing.AllocsPerRun(100, func() {
		s.Wrote(primary)
		s.Saw(replica, 1)
		s.Arrived()
		s.Settle(s.Mark(), at(100), primary)
		s.Ready(replica)
	}); n != 0 {
		t.Fatalf("%v allocations, want none", n)
	}
}
