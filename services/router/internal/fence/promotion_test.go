package fence

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

func TestFencesFollowAPromotion(t *testing.T) {
	// Timeline 1 ended at 500, timeline 2 at 800; 3 is the primary's.
	h := &History{Now: lsn.Position{Timeline: 3}, Ended: []lsn.Position{{Timeline: 1, LSN: 500}, {Timeline: 2, LSN: 800}}}
	// Timeline 2 began at 500, but 3 branched off from a server that was at 400 of it:
	// a point-in-time recovery.
	back := &History{Now: lsn.Position{Timeline: 3}, Ended: []lsn.Position{{Timeline: 1, LSN: 500}, {Timeline: 2, LSN: 400}}}
	// 3 branched off from 1, whatever became of 2.
	beside := &History{Now: lsn.Position{Timeline: 3}, Ended: []lsn.Position{{Timeline: 1, LSN: 500}}}
	for name, c := range map[string]struct {
		h        *History
		at, want lsn.Position
		lost     bool
	}{
		"nothing to see":          {h, lsn.Position{}, lsn.Position{}, false},
		"common history":          {h, lsn.Position{Timeline: 1, LSN: 499}, lsn.Position{Timeline: 3, LSN: 499}, false},
		"the last record":         {h, lsn.Position{Timeline: 1, LSN: 500}, lsn.Position{Timeline: 3, LSN: 500}, false},
		"behind the switch":       {h, lsn.Position{Timeline: 1, LSN: 501}, lsn.Position{Timeline: 3, LSN: 500}, true},
		"of the timeline between": {h, lsn.Position{Timeline: 2, LSN: 700}, lsn.Position{Timeline: 3, LSN: 700}, false},
		"lost with that one":      {h, lsn.Position{Timeline: 2, LSN: 900}, lsn.Position{Timeline: 3, LSN: 800}, true},
		"the primary's own":       {h, lsn.Position{Timeline: 3, LSN: 900}, lsn.Position{Timeline: 3, LSN: 900}, false},
		"a later one":             {h, lsn.Position{Timeline: 4, LSN: 10}, lsn.Position{Timeline: 4, LSN: 10}, false},
		"lost further on":         {back, lsn.Position{Timeline: 1, LSN: 450}, lsn.Position{Timeline: 3, LSN: 400}, true},
		"of another branch":       {beside, lsn.Position{Timeline: 2, LSN: 900}, lsn.Position{Timeline: 3, LSN: 500}, true},
		"early on another branch": {beside, lsn.Position{Timeline: 2, LSN: 490}, lsn.Position{Timeline: 3, LSN: 490}, true},
		"before what is known":    {&History{Now: lsn.Position{Timeline: 3}, Ended: []lsn.Position{{Timeline: 2, LSN: 500}}}, lsn.Position{Timeline: 1, LSN: 10}, lsn.Position{Timeline: 1, LSN: 10}, false},
		"no history known":        {&History{Now: lsn.Position{Timeline: 3}}, lsn.Position{Timeline: 1, LSN: 10}, lsn.Position{Timeline: 1, LSN: 10}, false},
	} {
		s := Arrive(Baggage{Position: c.at})
		if lost := s.Follow(c.h); lost != c.lost || s.Position() != c.want {
			t.Errorf("%s: at %v, lost %t; want %v, %t", name, s.Position(), lost, c.want, c.lost)
		}
		if s.Follow(c.h) {
			t.Errorf("%s: lost a second time", name)
		}
	}
}
