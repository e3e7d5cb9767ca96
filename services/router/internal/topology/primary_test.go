package topology

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// claim is a member that says it is the primary, on a timeline; follow one that
// does not.
func claim(name string, tl lsn.Timeline) bus.Member {
	return bus.Member{Backend: name, Role: bus.Primary, Healthy: true, Incarnation: lsn.Incarnation{SystemID: 7, Timeline: tl}}
}

func follow(name string, tl lsn.Timeline) bus.Member {
	m := claim(name, tl)
	m.Role = bus.Replica
	return m
}

func says(publisher string, generation uint64, primary string, members ...bus.Member) bus.Topology {
	return bus.Topology{V: 1, Publisher: publisher, Generation: generation, Primary: primary, Members: members}
}

func TestTopology(t *testing.T) {
	const p, r1 = 0, 1
	dead := claim("p", 1)
	dead.Healthy = false
	for name, c := range map[string]struct {
		says []bus.Topology
		want int
	}{
		"a promotion":                  {[]bus.Topology{says("1", 1, "r1", dead, claim("r1", 2))}, r1},
		"a primary that is down":       {[]bus.Topology{says("1", 1, "r1", claim("r1", 2)), says("1", 2, "", dead)}, r1},
		"one left behind":              {[]bus.Topology{says("1", 1, "", claim("p", 1), follow("r1", 2))}, route.None},
		"two claim to be it":           {[]bus.Topology{says("1", 1, "", claim("p", 1), claim("r1", 1))}, route.None},
		"one that is not configured":   {[]bus.Topology{says("1", 1, "x", claim("x", 3))}, p},
		"an older message of the same": {[]bus.Topology{says("1", 2, "r1", claim("r1", 2)), says("1", 1, "p", claim("p", 1))}, r1},
		"another has not seen it yet":  {[]bus.Topology{says("1", 2, "r1", claim("r1", 2)), says("2", 9, "p", claim("p", 1))}, r1},
		"in the other order":           {[]bus.Topology{says("2", 9, "p", claim("p", 1)), says("1", 2, "r1", claim("r1", 2))}, r1},
		"two named on one timeline":    {[]bus.Topology{says("1", 1, "p", claim("p", 1)), says("2", 1, "r1", claim("r1", 1))}, route.None},
		"one sees two of them":         {[]bus.Topology{says("1", 1, "p", claim("p", 1)), says("2", 1, "", claim("p", 1), claim("r1", 1))}, route.None},
		"one sees a replica ahead":     {[]bus.Topology{says("1", 1, "p", claim("p", 1)), says("2", 1, "", claim("p", 1), follow("r1", 2))}, route.None},
		"one cannot see the new one":   {[]bus.Topology{says("1", 1, "r1", claim("r1", 2)), says("2", 1, "", claim("p", 1), follow("x", 2))}, r1},
		"one sees nothing":             {[]bus.Topology{says("1", 1, "r1", claim("r1", 2)), says("2", 1, "")}, r1},
	} {
		tr := fresh()
		for i := range c.says {
			tr.Topology(&c.says[i], t0)
		}
		if got := tr.Table().Primary; got != c.want {
			t.Errorf("%s: primary %d, want %d", name, got, c.want)
		}
		// Each repeats what it says: nothing moves.
		for range 3 {
			last := map[string]bus.Topology{}
			for _, m := range c.says {
				if m.Generation >= last[m.Publisher].Generation {
					last[m.Publisher] = m
				}
			}
			for _, m := range last {
				if tr.Topology(&m, t0) || tr.Table().Primary != c.want {
					t.Errorf("%s: moved to %d when %s said it again", name, tr.Table().Primary, m.Publisher)
				}
			}
		}
	}
}

// A lagpoller that is no more has no say.
func TestSilentLagpollersHaveNoSay(t *testing.T) {
	tr := fresh()
	a, b := says("1", 1, "", claim("p", 1), claim("r1", 1)), says("2", 1, "r1", claim("r1", 1))
	tr.Topology(&a, t0)
	if tr.Topology(&b, t0); tr.Table().Primary != route.None {
		t.Fatal("one sees two primaries")
	}
	if !tr.Topology(&b, t0.Add(4*time.Second)) || tr.Table().Primary != 1 {
		t.Fatal("the word of one that has been silent for longer than stale_after counts")
	}
}

// A lagpoller that was started after its clock was set back has lower generations than before. What
// it said then lapses.
func TestALagpollerWhoseClockWasSetBack(t *testing.T) {
	tr := fresh()
	before, again := says("1", 1000, "p", claim("p", 1)), says("1", 10, "r1", claim("r1", 2))
	tr.Topology(&before, t0)
	if tr.Topology(&again, t0.Add(time.Second)) {
		t.Fatal("an older message counts")
	}
	if !tr.Topology(&again, t0.Add(4*time.Second)) || tr.Table().Primary != 1 {
		t.Fatalf("the primary is %d", tr.Table().Primary)
	}
}

func TestHistory(t *testing.T) {
	tr := fresh()
	m := says("1", 1, "r1", claim("r1", 2))
	m.SwitchPoints = []lsn.Position{{Timeline: 1, LSN: 500}}
	tr.Topology(&m, t0)
	at, lost, ok := tr.History().Carry(lsn.Position{Timeline: 1, LSN: 600})
	if !ok || !lost || at != (lsn.Position{Timeline: 2, LSN: 500}) || tr.History().SystemID != 7 {
		t.Fatalf("%v %t %t", at, lost, ok)
	}
}

// A replica that has replayed what a promotion has lost is left alone as soon as both are
// known here, in whichever order, until it is another run.
func TestAReplicaThatHasDivergedIsLeftAlone(t *testing.T) {
	promoted := says("1", 1, "r2", claim("r2", 2))
	promoted.SwitchPoints = []lsn.Position{{Timeline: 1, LSN: 500}}
	names := []string{"p", "r1", "r2"}
	for name, c := range map[string]struct {
		learn    []func(tr *Tracker)
		diverged bool
	}{
		"position first": {[]func(*Tracker){
			func(tr *Tracker) { tr.Lag(lag(1, inc(1, 1), 600), t0) },
			func(tr *Tracker) { tr.Topology(&promoted, t0) },
		}, true},
		"promotion first": {[]func(*Tracker){
			func(tr *Tracker) { tr.Topology(&promoted, t0) },
			func(tr *Tracker) { tr.Lag(lag(1, inc(1, 1), 600), t0) },
		}, true},
		"by an own connection": {[]func(*Tracker){
			func(tr *Tracker) { tr.Lag(lag(1, inc(1, 1), 400), t0) },
			func(tr *Tracker) { tr.Topology(&promoted, t0) },
			func(tr *Tracker) { tr.Replayed(1, tr.Run(1), lsn.Position{Timeline: 1, LSN: 501}) },
		}, true},
		"up to the switch point": {[]func(*Tracker){
			func(tr *Tracker) { tr.Lag(lag(1, inc(1, 1), 500), t0) },
			func(tr *Tracker) { tr.Topology(&promoted, t0) },
		}, false},
		"on the new timeline": {[]func(*Tracker){
			func(tr *Tracker) { tr.Lag(lag(1, inc(1, 1), 400), t0) },
			func(tr *Tracker) { tr.Topology(&promoted, t0) },
			func(tr *Tracker) { tr.Replayed(1, tr.Run(1), lsn.Position{Timeline: 2, LSN: 700}) },
		}, false},
		"rebuilt": {[]func(*Tracker){
			func(tr *Tracker) { tr.Lag(lag(1, inc(1, 1), 600), t0) },
			func(tr *Tracker) { tr.Topology(&promoted, t0) },
			func(tr *Tracker) { tr.Lag(lag(2, inc(2, 2), 450), t0) },
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := New(names, settings())
			for _, learn := range c.learn {
				learn(tr)
			}
			if got := tr.Table().Backends[1].Diverged; got != c.diverged {
				t.Errorf("diverged: %v, want %v", got, c.diverged)
			}
			serves := route.Eligible(tr.Table(), &route.Request{Read: true, Strict: true}, 1)
			if serves == c.diverged {
				t.Errorf("it serves a read that needs nothing newer: %v", serves)
			}
		})
	}
}
