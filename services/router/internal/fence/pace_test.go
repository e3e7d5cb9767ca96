package fence

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

func TestPace(t *testing.T) {
	const least = time.Millisecond
	start := time.Unix(1000, 0)
	at := func(l lsn.LSN) lsn.Position { return lsn.Position{Timeline: 2, LSN: l} }
	for name, c := range map[string]struct {
		want     lsn.Position
		wait     time.Duration
		replayed lsn.Position
		// stood is for how long the replica has been seen where it is, asked that it has
		// just been asked.
		stood  time.Duration
		asked  bool
		wanted bool
		pause  time.Duration
	}{
		"nothing is wanted":                   {replayed: at(5)},
		"behind":                              {want: at(9), replayed: at(5), wanted: true},
		"behind, asked just now":              {want: at(9), replayed: at(5), asked: true, wanted: true, pause: least},
		"there":                               {want: at(9), replayed: at(9)},
		"beyond":                              {want: at(9), replayed: at(10)},
		"nothing known of it":                 {want: at(9), wanted: true},
		"on a timeline before":                {want: at(9), replayed: lsn.Position{Timeline: 1, LSN: 20}, wanted: true},
		"on a timeline behind it":             {want: at(9), replayed: lsn.Position{Timeline: 3, LSN: 2}},
		"stands still":                        {want: at(9), replayed: at(5), stood: 200 * time.Millisecond, asked: true, wanted: true, pause: 10 * time.Millisecond},
		"has been standing still":             {want: at(9), replayed: at(5), stood: 900 * time.Millisecond, asked: true, wanted: true, pause: slowest},
		"a read waits for long":               {want: at(9), wait: 5 * time.Second, replayed: at(5), stood: 4 * time.Second, asked: true, wanted: true, pause: slowest},
		"nobody has said so for a long while": {want: at(9), replayed: at(5), stood: 1100 * time.Millisecond, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			var p Pace
			if !c.want.IsZero() {
				p.Want(c.want, start, c.wait)
			}
			p.Next(c.replayed, least, start)
			now := start.Add(c.stood)
			if c.asked {
				p.Asked(now)
			}
			due, wanted := p.Next(c.replayed, least, now)
			if wanted != c.wanted {
				t.Fatalf("wanted %v, want %v", wanted, c.wanted)
			}
			if !wanted {
				return
			}
			if got := max(0, due.Sub(now)); got != c.pause {
				t.Errorf("a pause of %v, want %v", got, c.pause)
			}
		})
	}
}

// A want that has lapsed does not come back with the next one, and a replica that moves
// again is asked as often as any.
func TestPaceForgets(t *testing.T) {
	const least = time.Millisecond
	now := time.Unix(1000, 0)
	var p Pace
	p.Want(lsn.Position{Timeline: 1, LSN: 90}, now, 0)
	now = now.Add(2 * wantedFor)
	p.Want(lsn.Position{Timeline: 1, LSN: 10}, now, 0)
	if _, wanted := p.Next(lsn.Position{Timeline: 1, LSN: 10}, least, now); wanted {
		t.Error("what was wanted long ago is wanted still")
	}
	p.Want(lsn.Position{Timeline: 1, LSN: 90}, now, 0)
	p.Next(lsn.Position{Timeline: 1, LSN: 10}, least, now)
	now = now.Add(wantedFor / 2)
	p.Asked(now)
	if due, _ := p.Next(lsn.Position{Timeline: 1, LSN: 10}, least, now); due.Sub(now) == least {
		t.Error("a replica that stands still is asked as often as one that moves")
	}
	if due, wanted := p.Next(lsn.Position{Timeline: 1, LSN: 11}, least, now); !wanted || due.Sub(now) != least {
		t.Errorf("a replica that moves again is asked after %v (%v), want %v", due.Sub(now), wanted, least)
	}
}
