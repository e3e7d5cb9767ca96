package cluster

import (
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

func TestDivergence(t *testing.T) {
	points := []lsn.Position{{Timeline: 1, LSN: 100}, {Timeline: 3, LSN: 200}}
	for name, c := range map[string]struct {
		replayed lsn.Position
		points   []lsn.Position
		want     string
	}{
		"on the primary's timeline":    {lsn.Position{Timeline: 4, LSN: 300}, points, ""},
		"behind, before the end":       {lsn.Position{Timeline: 1, LSN: 99}, points, ""},
		"at the end itself":            {lsn.Position{Timeline: 1, LSN: 100}, points, ""},
		"past the end":                 {lsn.Position{Timeline: 1, LSN: 101}, points, "past the point where timeline 3 began"},
		"past the end of the last one": {lsn.Position{Timeline: 3, LSN: 201}, points, "past the point where timeline 4 began"},
		"a timeline of another branch": {lsn.Position{Timeline: 2, LSN: 50}, points, "not of the primary's history"},
		"the history is not known":     {lsn.Position{Timeline: 1, LSN: 101}, nil, ""},
	} {
		if got := divergence(c.replayed, 4, c.points); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestADivergedReplicaIsNotHealthy(t *testing.T) {
	s := newState()
	s.Observed("a", primary(1, 1, 120, 0), nil)
	s.Observed("b", replica(1, 1, 100, 1), nil)
	s.Observed("c", replica(1, 1, 120, 2), nil)
	s.Failed("a", errDown, true, clock(3))
	s.Observed("b", primary(1, 2, 110, 4), []lsn.Position{{Timeline: 1, LSN: 100}})

	// Known with the primary's history, before the replica is asked again.
	if topology, _ := s.Topology(clock(5)); topology.Members[2].Healthy {
		t.Errorf("the topology has %+v", topology.Members[2])
	}
	l, _, _ := s.Observed("c", replica(1, 1, 120, 6), nil)
	if l.Healthy || l.Error == "" || l.ReplayLSN != 120 {
		t.Errorf("the replica is told about as %+v", l)
	}
	if d := s.Diverged(); len(d) != 1 || d[0].Backend != "c" {
		t.Errorf("diverged: %+v", d)
	}
	// Rebuilt.
	if l, _, _ := s.Observed("c", replica(9, 2, 105, 7), nil); !l.Healthy || l.Error != "" || len(s.Diverged()) != 0 {
		t.Errorf("after its repair %+v, diverged: %+v", l, s.Diverged())
	}
}

// Two servers that were promoted one after the other, without an archive in which the second
// could have found the first one's timeline, both begin timeline 2.
func TestTwoPromotionsMayGiveOneNumber(t *testing.T) {
	s := newState()
	s.Observed("a", primary(1, 2, 130, 0), []lsn.Position{{Timeline: 1, LSN: 100}})
	l, _, _ := s.Observed("b", replica(1, 2, 120, 1), []lsn.Position{{Timeline: 1, LSN: 110}})
	if l.Healthy || !strings.Contains(l.Error, "left timeline 1 at 0/6E") || len(s.Diverged()) != 1 {
		t.Errorf("a replica of the other branch is told about as %+v", l)
	}
	s.Observed("a", primary(1, 3, 130, 2), []lsn.Position{{Timeline: 2, LSN: 100}})
	if l, _, _ := s.Observed("b", replica(1, 2, 90, 3), []lsn.Position{{Timeline: 1, LSN: 50}}); !l.Healthy || l.Error != "" {
		t.Errorf("a replica that knows more of the history than the primary is told about as %+v", l)
	}
	s.Observed("a", primary(1, 2, 130, 4), []lsn.Position{{Timeline: 1, LSN: 100}})
	for name, points := range map[string][]lsn.Position{"the same": {{Timeline: 1, LSN: 100}}, "not known": nil} {
		if l, _, _ := s.Observed("b", replica(1, 2, 120, 2), points); !l.Healthy || l.Error != "" {
			t.Errorf("%s: a replica of the primary's history is told about as %+v", name, l)
		}
	}
}

// An address that is wrong leads to another cluster, where positions mean something else.
func TestAReplicaOfAnotherCluster(t *testing.T) {
	s := newState()
	stranger := replica(1, 1, 500, 0)
	stranger.Incarnation.SystemID = 8
	s.Observed("b", stranger, nil)
	s.Observed("a", primary(1, 1, 120, 1), nil)
	if topology, _ := s.Topology(clock(2)); topology.Primary != "a" || topology.Members[1].Healthy {
		t.Errorf("the topology is %+v", topology)
	}
	l, _, _ := s.Observed("b", stranger, nil)
	if l.Healthy || !l.Diverged || !strings.Contains(l.Error, "system identifier is 8, the primary's is 7") || len(s.Diverged()) != 1 {
		t.Errorf("it is told about as %+v", l)
	}
	topology, _ := s.Topology(clock(3))
	if ills := Ailments(s.Snapshot(), topology); !strings.Contains(ills, "b (h:2): is of another database cluster") {
		t.Errorf("health says: %s", ills)
	}
	if l, _, _ := s.Observed("b", replica(2, 1, 100, 4), nil); !l.Healthy || l.Error != "" || len(s.Diverged()) != 0 {
		t.Errorf("after its address was corrected %+v, diverged: %+v", l, s.Diverged())
	}
}
