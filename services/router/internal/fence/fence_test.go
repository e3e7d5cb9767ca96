package fence

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

var (
	primary = Server{Backend: 0, Run: 1}
	at      = func(l lsn.LSN) lsn.Position { return lsn.Position{Timeline: 1, LSN: l} }
)

func TestAWriteDirtiesAndAProbeSettles(t *testing.T) {
	var s State
	if s.Dirty() || !s.Position().IsZero() {
		t.Fatal("a new session needs nothing")
	}
	s.Wrote(primary)
	if !s.Dirty() {
		t.Fatal("a forwarded write must make the fence dirty")
	}
	if !s.Settle(s.Mark(), at(100), primary) || s.Dirty() || s.Position() != at(100) {
		t.Fatalf("after the probe: dirty %v, position %v", s.Dirty(), s.Position())
	}
}

// A probe that started before the second write's answer says nothing about it.
func TestAProbeOfAnEarlierWriteLeavesALaterOneDirty(t *testing.T) {
	var s State
	s.Wrote(primary)
	mark := s.Mark()
	s.Wrote(primary)
	s.Settle(mark, at(100), primary)
	if !s.Dirty() || s.Position() != at(100) {
		t.Fatalf("dirty %v at %v; want dirty at 100", s.Dirty(), s.Position())
	}
	s.Settle(s.Mark(), at(90), primary)
	if s.Dirty() || s.Position() != at(100) {
		t.Fatalf("dirty %v at %v; a fence never goes back", s.Dirty(), s.Position())
	}
}

func TestAProbeOfAnotherRunSaysSo(t *testing.T) {
	var s State
	s.Wrote(primary)
	if s.Settle(s.Mark(), at(50), Server{Backend: 0, Run: 2}) {
		t.Fatal("a write answered by an earlier run may be lost; Settle must say so")
	}
	if s.Dirty() {
		t.Fatal("the session must go on, on the run that exists")
	}
}

// A write on one run, a restart, a write on the next: the first may be lost.
func TestWritesOnTwoRunsAreNotBothSure(t *testing.T) {
	next := Server{Backend: 0, Run: 2}
	var s State
	s.Wrote(primary)
	s.Wrote(next)
	if s.Settle(s.Mark(), at(50), next) {
		t.Fatal("the first write was answered by a run that has ended")
	}
	s.Wrote(next)
	if !s.Settle(s.Mark(), at(60), next) {
		t.Fatal("a later write is sure again")
	}
}

func TestAnotherPrimaryMayLackWhatTheSessionKnows(t *testing.T) {
	again := Server{Backend: 0, Run: 2}
	for name, c := range map[string]struct {
		do   func(*State)
		from Server
		on   lsn.Timeline
		want bool
	}{
		"nothing is known":                   {func(*State) {}, again, 2, false},
		"a write, the same run":              {func(s *State) { s.Wrote(primary) }, primary, 1, false},
		"a write, another run":               {func(s *State) { s.Wrote(primary) }, again, 1, true},
		"writes of two runs":                 {func(s *State) { s.Wrote(primary); s.Wrote(again) }, again, 1, true},
		"a settled write":                    {func(s *State) { s.Wrote(primary); s.Settle(s.Mark(), at(100), primary) }, again, 1, false},
		"read on the primary, the same run":  {func(s *State) { s.Saw(primary, 0) }, primary, 1, false},
		"read on the primary, another run":   {func(s *State) { s.Saw(primary, 0) }, again, 1, true},
		"read on a replica of its timeline":  {func(s *State) { s.Saw(replica, 1) }, again, 1, false},
		"read on a replica of another":       {func(s *State) { s.Saw(replica, 1) }, replica, 2, true},
		"a settled read on another timeline": {func(s *State) { s.Saw(replica, 1); s.Settle(s.Mark(), at(100), primary) }, again, 2, false},
	} {
		var s State
		c.do(&s)
		if got := s.Parted(c.from, c.on); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if s.Parted(c.from, c.on) {
			t.Errorf("%s: told twice", name)
		}
	}
}
