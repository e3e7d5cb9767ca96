package fence

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// A fence that has travelled asks for what it asked for before, and leaves again as it
// came.
func TestBaggage(t *testing.T) {
	one, two := Server{Backend: 1, Run: 3}, Server{Backend: 2, Run: 1}
	for name, f := range map[string]func(s *State){
		"nothing":                 func(*State) {},
		"a position":              func(s *State) { s.Raise(lsn.Position{Timeline: 1, LSN: 7}) },
		"a write":                 func(s *State) { s.Wrote(one) },
		"a write and one settled": func(s *State) { s.Wrote(one); s.Settle(s.Mark(), lsn.Position{Timeline: 1, LSN: 9}, one); s.Wrote(two) },
		"writes on two servers":   func(s *State) { s.Wrote(one); s.Wrote(two) },
		"a read":                  func(s *State) { s.Saw(two, 1) },
		"a read that is settled":  func(s *State) { s.Saw(two, 1); s.Settle(s.Mark(), lsn.Position{Timeline: 1, LSN: 9}, one) },
		"a read of the primary":   func(s *State) { s.Saw(one, 0); s.Wrote(one) },
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			f(&s)
			b := s.Depart()
			a := Arrive(b)
			if got := a.Depart(); got != b {
				t.Errorf("left as %+v and would leave as %+v", b, got)
			}
			to, bound := s.Bound()
			to2, bound2 := a.Bound()
			if a.Position() != s.Position() || a.Dirty() != s.Dirty() || bound != bound2 || bound && to != to2 || a.Ready(one) != s.Ready(one) || a.Ready(two) != s.Ready(two) {
				t.Errorf("%+v became %+v", s, a)
			}
			at := lsn.Position{Timeline: 1, LSN: 20}
			if sure, sure2 := s.Settle(s.Mark(), at, one), a.Settle(a.Mark(), at, one); sure != sure2 {
				t.Errorf("a probe settles it for sure: %v before, %v after", sure, sure2)
			}
		})
	}
}
