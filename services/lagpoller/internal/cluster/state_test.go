package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/probe"
)

var backends = []config.Backend{{Name: "a", Address: "h:1"}, {Name: "b", Address: "h:2"}, {Name: "c", Address: "h:3"}}

var errDown = errors.New("connection refused")

// clock gives moments of a test by their milliseconds.
func clock(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }

// newState has the backends a, b and c, which have been asked in vain.
func newState() *State {
	s := New("1", time.Unix(1000, 0))
	s.Configure(backends, clock(0))
	for _, b := range backends {
		s.Failed(b.Name, errDown, false, clock(0))
	}
	return s
}

// named gives the primary of the topology.
func named(s *State) string {
	t, _ := s.Topology(clock(9))
	return t.Primary
}

// generation is the topology's.
func generation(s *State) uint64 {
	t, _ := s.Topology(clock(9))
	return t.Generation
}

func primary(run int64, timeline lsn.Timeline, insert lsn.LSN, ms int) probe.Observation {
	return probe.Observation{Role: bus.Primary, Incarnation: incarnation(run, timeline), Insert: insert, Flush: insert, Asked: clock(ms), Answered: clock(ms + 1)}
}

func replica(run int64, timeline lsn.Timeline, replay lsn.LSN, ms int) probe.Observation {
	return probe.Observation{Role: bus.Replica, Incarnation: incarnation(run, timeline), Replay: replay, Receive: replay, Asked: clock(ms), Answered: clock(ms + 1)}
}

func incarnation(run int64, timeline lsn.Timeline) lsn.Incarnation {
	return lsn.Incarnation{SystemID: 7, Timeline: timeline, Postmaster: run, Children: run}
}

func TestLagOfAReplica(t *testing.T) {
	s := newState()
	if l, _, _ := s.Observed("b", replica(1, 1, 90, 0), nil); l.LagBytes != unknown || l.LagMillis != unknown {
		t.Fatalf("lag behind a primary never seen: %+v", l)
	}
	s.Observed("a", primary(1, 1, 100, 10), nil)
	s.Observed("a", primary(1, 1, 150, 20), nil)
	l, changed, ok := s.Observed("b", replica(1, 1, 120, 29), nil)
	if !ok || changed || l.LagBytes != 30 || l.LagMillis != 20 || !l.Healthy || l.ReplayLSN != 120 {
		t.Fatalf("got %+v, changed %v", l, changed)
	}
	if l, _, _ := s.Observed("a", primary(1, 1, 150, 30), nil); l.LagBytes != 0 || l.LagMillis != 0 {
		t.Fatalf("the primary lags behind itself: %+v", l)
	}
}

func TestSeqGrowsAlsoOverAStartOfTheLagpoller(t *testing.T) {
	s := newState()
	first, _, _ := s.Observed("a", primary(1, 1, 100, 0), nil)
	second, _, _ := s.Failed("a", errDown, false, clock(1))
	later := New("1", time.Unix(1001, 0))
	later.Configure(backends, clock(1000))
	for _, b := range backends[1:] {
		later.Failed(b.Name, errDown, false, clock(1000))
	}
	third, _, _ := later.Observed("a", primary(1, 1, 100, 1000), nil)
	if first.Seq >= second.Seq || second.Seq >= third.Seq {
		t.Fatalf("sequence %d, %d, %d", first.Seq, second.Seq, third.Seq)
	}
	if generation(s) >= generation(later) {
		t.Fatal("the generation does not grow over a start")
	}
}

func TestAFailureKeepsTheLastPositions(t *testing.T) {
	s := newState()
	if l, _, _ := s.Failed("b", errDown, false, clock(0)); l.Healthy || l.Role != bus.Unknown {
		t.Fatalf("a backend never seen is healthy: %+v", l)
	}
	seen, _, _ := s.Observed("b", replica(1, 1, 90, 5), nil)
	l, changed, _ := s.Failed("b", errDown, false, clock(10))
	if changed || !l.Healthy || l.Error == "" || l.ReplayLSN != 90 || !l.At.Equal(seen.At) {
		t.Fatalf("one failure: %+v, changed %v", l, changed)
	}
	l, changed, _ = s.Failed("b", errDown, true, clock(20))
	if !changed || l.Healthy {
		t.Fatalf("ill: %+v, changed %v", l, changed)
	}
	if l, _, _ = s.Failed("b", errDown, false, clock(25)); l.Healthy {
		t.Fatal("an ill backend became healthy by failing")
	}
	if l, changed, _ = s.Observed("b", replica(2, 1, 80, 30), nil); !changed || !l.Healthy || l.Error != "" {
		t.Fatalf("back again: %+v, changed %v", l, changed)
	}
}

func TestPrimaryOfTheTopology(t *testing.T) {
	points := []lsn.Position{{Timeline: 1, LSN: 5}}
	for name, c := range map[string]struct {
		tell func(s *State)
		want string
	}{
		"nothing known": {func(*State) {}, ""},
		"the one that says so, whatever its place": {func(s *State) {
			s.Observed("c", primary(1, 1, 9, 0), nil)
		}, "c"},
		"two on one timeline": {func(s *State) {
			s.Observed("a", primary(1, 2, 9, 0), points)
			s.Observed("b", primary(1, 2, 9, 0), points)
		}, ""},
		"two, and nobody knows where the second came from": {func(s *State) {
			s.Observed("a", primary(1, 1, 9, 0), nil)
			s.Observed("b", primary(1, 2, 9, 0), nil)
		}, ""},
		"promoted while the other is there": {func(s *State) {
			s.Observed("a", primary(1, 1, 9, 0), nil)
			s.Observed("b", primary(1, 2, 9, 0), points)
		}, "b"},
		"the former one is back": {func(s *State) {
			s.Observed("b", primary(1, 2, 9, 0), points)
			s.Observed("a", primary(3, 1, 9, 2), nil)
		}, "b"},
		"two promoted from one": {func(s *State) {
			s.Observed("a", primary(1, 2, 9, 0), points)
			s.Observed("b", primary(1, 3, 9, 0), points)
		}, ""},
		"promoted twice, all there": {func(s *State) {
			s.Observed("a", primary(1, 1, 9, 0), nil)
			s.Observed("b", primary(1, 2, 9, 0), points)
			s.Observed("c", primary(1, 3, 9, 0), []lsn.Position{{Timeline: 1, LSN: 5}, {Timeline: 2, LSN: 7}})
		}, "c"},
		"ill and nobody else": {func(s *State) {
			s.Observed("a", primary(1, 1, 9, 0), nil)
			s.Failed("a", errDown, true, clock(1))
		}, "a"},
		"ill, and another was promoted": {func(s *State) {
			s.Observed("a", primary(1, 1, 9, 0), nil)
			s.Failed("a", errDown, true, clock(1))
			s.Observed("b", primary(1, 2, 9, 2), nil)
		}, "b"},
		"left behind by a failover, the new one ill": {func(s *State) {
			s.Observed("b", primary(1, 2, 9, 0), nil)
			s.Failed("b", errDown, true, clock(1))
			s.Observed("a", primary(3, 1, 9, 2), nil)
		}, ""},
		"left behind by a failover that a replica followed": {func(s *State) {
			s.Observed("c", replica(1, 2, 9, 0), nil)
			s.Observed("a", primary(3, 1, 9, 2), nil)
		}, ""},
		"became a replica": {func(s *State) {
			s.Observed("a", primary(1, 1, 9, 0), nil)
			s.Observed("a", replica(2, 1, 9, 1), nil)
		}, ""},
	} {
		s := newState()
		c.tell(s)
		if got := named(s); got != c.want {
			t.Errorf("%s: primary is %q, want %q", name, got, c.want)
		}
	}
}

func TestASupersededPrimaryIsNamed(t *testing.T) {
	s := newState()
	s.Observed("a", primary(1, 1, 9, 0), nil)
	if l := s.Superseded(); len(l) != 0 {
		t.Fatalf("the only primary is superseded: %v", l)
	}
	s.Observed("b", primary(1, 2, 9, 0), []lsn.Position{{Timeline: 1, LSN: 5}})
	if l := s.Superseded(); len(l) != 1 || l[0].Backend != "a" {
		t.Fatalf("superseded: %v, want a", l)
	}
	s.Failed("a", errDown, false, clock(1)) // once is enough to say that it does not answer
	if l := s.Superseded(); len(l) != 0 {
		t.Fatalf("one that is down is superseded: %v", l)
	}
}

func TestTopologyChanges(t *testing.T) {
	s := newState()
	before := generation(s)
	if _, changed, _ := s.Observed("a", primary(1, 1, 9, 0), nil); !changed {
		t.Error("a first primary is no change")
	}
	if _, changed, _ := s.Observed("a", primary(1, 1, 10, 1), nil); changed {
		t.Error("a position is a change")
	}
	points := []lsn.Position{{Timeline: 1, LSN: 10}}
	if _, changed, _ := s.Observed("a", primary(1, 2, 11, 2), points); !changed {
		t.Error("a timeline is no change")
	}
	got, _ := s.Topology(clock(3))
	if got.Generation != before+2 || len(got.SwitchPoints) != 1 || got.SwitchPoints[0] != points[0] || got.Members[0].Incarnation.Timeline != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestConfigureKeepsWhoStays(t *testing.T) {
	s := newState()
	s.Observed("a", primary(1, 1, 100, 0), nil)
	s.Observed("b", replica(1, 1, 100, 1), nil)
	before := generation(s)
	s.Configure([]config.Backend{{Name: "a", Address: "h:1"}, {Name: "b", Address: "h:9"}, {Name: "d", Address: "h:4"}}, clock(2))
	snap := s.Snapshot().Backends
	if len(snap) != 3 || snap[0].Role != bus.Primary || snap[1].Role != bus.Unknown || snap[1].Address != "h:9" || snap[2].Backend != "d" {
		t.Errorf("got %+v", snap)
	}
	if _, _, ok := s.Observed("c", replica(1, 1, 100, 3), nil); ok {
		t.Error("a backend that was removed is told about")
	}
	s.Observed("b", replica(1, 1, 100, 4), nil)
	if got := generation(s); got != before {
		t.Error("the topology is another one before all of it has been asked")
	}
	if _, changed, _ := s.Failed("d", errDown, false, clock(5)); !changed || named(s) != "a" {
		t.Errorf("other members are no change, the primary is %q", named(s))
	}
	if !s.Configure([]config.Backend{{Name: "a", Address: "h:1"}}, clock(6)) {
		t.Error("fewer members are no change")
	}
}
