package cluster

import (
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

// review makes the topology anew and reports whether it is another one.
func (s *State) review(now time.Time) bool {
	next := bus.Topology{
		V: bus.Version, Publisher: s.publisher, Primary: s.primary(),
		Members: make([]bus.Member, 0, len(s.order)), SwitchPoints: []lsn.Position{},
	}
	s.judge(next.Primary)
	for _, name := range s.order {
		l := &s.members[name].lag
		next.Members = append(next.Members, bus.Member{
			Backend: l.Backend, Address: l.Address, Role: l.Role, Healthy: l.Healthy, Incarnation: l.Incarnation,
		})
	}
	if m := s.members[next.Primary]; m != nil {
		next.SwitchPoints = append(next.SwitchPoints, m.points...)
	}
	if sameTopology(next, s.topology) {
		return false
	}
	s.generation++
	next.Generation, next.At = s.generation, now.UTC()
	s.topology = next
	return true
}

func sameTopology(a, b bus.Topology) bool {
	return a.Primary == b.Primary && slices.Equal(a.Members, b.Members) && slices.Equal(a.SwitchPoints, b.SwitchPoints)
}

// primary names the backend that accepts writes. Two that claim to are none:
// pgpilot does not write to two. One on an older timeline than some other member
// has seen is what a failover left behind. An ill primary stays the primary until
// another one turns up: this lagpoller may be the only one that cannot reach it.
func (s *State) primary() string {
	var candidates []string
	for _, name := range s.order {
		if l := &s.members[name].lag; l.Role == bus.Primary && l.Healthy {
			candidates = append(candidates, name)
		}
	}
	if len(candidates) == 0 {
		if m := s.members[s.topology.Primary]; m != nil && m.lag.Role == bus.Primary {
			candidates = append(candidates, s.topology.Primary)
		}
	}
	if len(candidates) != 1 || s.outdated(s.members[candidates[0]].lag.Incarnation) {
		return ""
	}
	return candidates[0]
}

// outdated reports whether another member of the same system is on a newer timeline.
func (s *State) outdated(i lsn.Incarnation) bool {
	for _, m := range s.members {
		if o := m.lag.Incarnation; o.SystemID == i.SystemID && o.Timeline > i.Timeline {
			return true
		}
	}
	return false
}
