package topology

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// placed has p1 at host a and r1 at host b.
func placed() *Tracker {
	tr := New([]string{"p1", "r1"}, settings())
	tr.Locate(0, "a")
	tr.Locate(1, "b")
	return tr
}

// at gives a member its address.
func at(address string, m bus.Member) bus.Member {
	m.Address = address
	return m
}

// move gives a name another address, as a new configuration does, and gives its new index.
func move(t *testing.T, tr *Tracker, name, address string) int {
	t.Helper()
	tr.Leave(tr.Index(name))
	i, ok := tr.Add(name, t0)
	if !ok {
		t.Fatal("no room")
	}
	tr.Locate(i, address)
	return i
}

// Routers and lagpollers do not take up a new configuration at once: a name says who is the
// primary only where it stands for the server that is meant.
func TestWhoseNameItIs(t *testing.T) {
	promoted := says("1", 1, "r1", at("a", claim("p1", 1)), at("b", claim("r1", 2)))
	for name, c := range map[string]struct {
		do   func(t *testing.T, tr *Tracker)
		want string // the address of the primary
	}{
		"the same configuration": {func(*testing.T, *Tracker) {}, "b"},
		"swapped here first": {func(t *testing.T, tr *Tracker) {
			tr.Leave(0)
			move(t, tr, "r1", "a")
			i, _ := tr.Add("p1", t0)
			tr.Locate(i, "b")
			tr.Topology(&promoted, t0)
		}, ""},
		"swapped here first, and the lagpoller follows": {func(t *testing.T, tr *Tracker) {
			tr.Leave(0)
			move(t, tr, "r1", "a")
			i, _ := tr.Add("p1", t0)
			tr.Locate(i, "b")
			m := says("1", 2, "p1", at("b", claim("p1", 2)), at("a", claim("r1", 1)))
			tr.Topology(&m, t0)
		}, "b"},
		"swapped there first": {func(t *testing.T, tr *Tracker) {
			m := says("1", 2, "p1", at("b", claim("p1", 2)), at("a", claim("r1", 1)))
			tr.Topology(&m, t0)
		}, "b"},
		"moved here first": {func(t *testing.T, tr *Tracker) {
			move(t, tr, "r1", "c")
			tr.Topology(&promoted, t0)
		}, ""},
		"moved there first": {func(t *testing.T, tr *Tracker) {
			m := says("1", 2, "p1", at("c", claim("p1", 3)), at("b", claim("r1", 2)))
			tr.Topology(&m, t0)
		}, "b"},
		"reached by another address there": {func(t *testing.T, tr *Tracker) {
			m := says("2", 2, "p1", at("a.example", claim("p1", 3)), at("b.example", claim("r1", 2)))
			tr.Topology(&m, t0)
		}, "a"},
		"another address there, and moved there first": {func(t *testing.T, tr *Tracker) {
			for _, m := range []bus.Topology{
				says("2", 1, "r1", at("a.example", claim("p1", 1)), at("b.example", claim("r1", 2))),
				says("2", 2, "r1", at("a.example", claim("p1", 1)), at("c.example", claim("r1", 3))),
			} {
				tr.Topology(&m, t0)
			}
			if got := tr.History().Now.Timeline; got != 2 {
				t.Errorf("the primary is on timeline %d, by the word about another server", got)
			}
		}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := placed()
			tr.Topology(&promoted, t0)
			c.do(t, tr)
			got := ""
			if i := tr.Table().Primary; i != route.None {
				got = tr.nodes[i].address
			}
			if got != c.want {
				t.Errorf("the primary is at %q, want %q", got, c.want)
			}
		})
	}
}

func TestPositionsAreOfTheServerThatIsMeant(t *testing.T) {
	tr := placed()
	say := func(address string, run int64, replayed lsn.LSN) lsn.LSN {
		m := lag(1, inc(run, run), replayed)
		m.Address = address
		tr.Lag(m, t0)
		return tr.Table().Backends[tr.Index("r1")].Replayed.LSN
	}
	if got := say("b", 1, 100); got != 100 {
		t.Fatalf("replayed %v, want 100", got)
	}
	for _, address := range []string{"a", "c"} {
		if got := say(address, 2, 500); got != 100 {
			t.Errorf("replayed %v, by the word about the server at %s", got, address)
		}
	}
	move(t, tr, "r1", "c")
	if got := say("b", 1, 600); got != 0 {
		t.Errorf("replayed %v, by the word about the server that had the name", got)
	}
	if got := say("c", 2, 50); got != 50 {
		t.Errorf("replayed %v, want 50", got)
	}
}

// restored is news of a run of r1 that began anew, on a timeline.
func restored(run int64, timeline lsn.Timeline) *bus.Lag {
	m := lag(9, inc(run, run), 10)
	m.Incarnation.Timeline = timeline
	return m
}

// Who names the former primary on its timeline may not have seen the promotion: it is not followed
// before all that have been further are seen to have gone back.
func TestTheWayBackNeedsEvidence(t *testing.T) {
	former := says("2", 1, "p1", at("a", claim("p1", 1)), at("b", bus.Member{Backend: "r1", Role: bus.Unknown}))
	for name, c := range map[string]struct {
		do     func(t *testing.T, tr *Tracker)
		want   int
		passed string
	}{
		"the promoted server is not seen": {func(*testing.T, *Tracker) {}, 1, "p1"},
		"it has restarted": {func(_ *testing.T, tr *Tracker) {
			tr.Observe(1, inc(5, 5), Sight{At: t0})
		}, 1, "p1"},
		"it is a replica of the former one now": {func(_ *testing.T, tr *Tracker) { tr.Lag(restored(5, 1), t0) }, 0, ""},
		"old news of it": {func(_ *testing.T, tr *Tracker) {
			m := lag(9, inc(1, 1), 10)
			m.Publisher = "3"
			tr.Lag(m, t0)
		}, 1, "p1"},
		"it is configured no more": {func(_ *testing.T, tr *Tracker) { tr.Leave(1) }, 0, ""},
		"it has another address":   {func(t *testing.T, tr *Tracker) { move(t, tr, "r1", "c") }, route.None, "p1"},
		"it has another name": {func(_ *testing.T, tr *Tracker) {
			tr.Leave(1)
			i, _ := tr.Add("x", t0)
			tr.Locate(i, "b")
		}, route.None, "p1"},
		"it has another address and is a replica there": {func(t *testing.T, tr *Tracker) {
			move(t, tr, "r1", "c")
			m := restored(5, 1)
			m.Address = "c"
			tr.Lag(m, t0)
		}, 0, ""},
		"the former one is of another cluster": {func(_ *testing.T, tr *Tracker) {
			former := former
			former.Members = []bus.Member{at("a", claim("p1", 1))}
			former.Members[0].Incarnation.SystemID, former.Generation = 8, 2
			tr.Topology(&former, t0.Add(4*time.Second))
		}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tr := placed()
			tr.Lag(lag(1, inc(1, 1), 100), t0)
			promoted := says("1", 1, "r1", at("a", claim("p1", 1)), at("b", claim("r1", 2)))
			tr.Topology(&promoted, t0)
			leader := lag(2, inc(1, 1), 0)
			leader.Role, leader.Incarnation.Timeline = bus.Primary, 2
			tr.Lag(leader, t0)
			c.do(t, tr)
			former := former
			tr.Topology(&former, t0.Add(4*time.Second)) // the one that knew better is silent
			if got := tr.Table().Primary; got != c.want || tr.Passed() != c.passed {
				t.Errorf("the primary is %d and %q is passed, want %d and %q", got, tr.Passed(), c.want, c.passed)
			}
		})
	}
}

// A replica of another cluster has replayed nothing of this one, whatever its positions say.
func TestAReplicaOfAnotherClusterIsLeftAlone(t *testing.T) {
	other := inc(1, 1)
	other.SystemID = 8
	leads := says("1", 1, "p", claim("p", 1))
	for name, learn := range map[string][]func(tr *Tracker){
		"position first": {
			func(tr *Tracker) { tr.Lag(lag(1, other, 600), t0) },
			func(tr *Tracker) { tr.Topology(&leads, t0) },
		},
		"primary first": {
			func(tr *Tracker) { tr.Topology(&leads, t0) },
			func(tr *Tracker) { tr.Lag(lag(1, other, 600), t0) },
		},
		"after a restart": {
			func(tr *Tracker) { tr.Topology(&leads, t0) },
			func(tr *Tracker) { tr.Lag(lag(1, other, 600), t0) },
			func(tr *Tracker) { tr.Observe(1, inc(2, 2), Sight{At: t0}) },
		},
		"by an own connection": {
			func(tr *Tracker) { tr.Topology(&leads, t0) },
			func(tr *Tracker) { tr.Lag(lag(1, lsn.Incarnation{Timeline: 1, Postmaster: 1, Children: 1}, 600), t0) },
			func(tr *Tracker) { tr.Belongs(1, tr.Run(1), 8) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := fresh()
			for _, l := range learn {
				l(tr)
			}
			for _, strict := range []bool{true, false} {
				if route.Eligible(tr.Table(), &route.Request{Read: true, Strict: strict}, 1) {
					t.Errorf("it serves a read, strict: %v", strict)
				}
			}
			if !tr.Foreign(1) {
				t.Error("it is not told apart")
			}
			tr.Lag(lag(9, inc(7, 7), 10), t0)
			if !route.Eligible(tr.Table(), &route.Request{Read: true, Strict: true}, 1) || tr.Foreign(1) {
				t.Error("it has been made anew from the primary, and is not used")
			}
		})
	}
}
