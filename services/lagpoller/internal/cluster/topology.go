package cluster

import (
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

// review makes the topology anew and reports whether it is another one. While a backend
// has not been asked yet, it may be the one that was promoted from those that have: the
// topology stays what it is.
func (s *State) review(now time.Time) bool {
	for _, m := range s.members {
		if !m.asked {
			s.judge(s.known())
			return false
		}
	}
	next := bus.Topology{
		V: bus.Version, Publisher: s.publisher, Primary: s.primary(),
		Members: make([]bus.Member, 0, len(s.order)), SwitchPoints: []lsn.Position{},
	}
	s.judge(s.members[next.Primary])
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

// primary names the backend that accepts writes. Of several that claim to, it is the
// one that was promoted from the others; if there is no such one, none is: pgpilot
// does not write to two. One on an older timeline than some other member has seen is
// what a failover left behind. An ill primary stays the primary until another one
// turns up: this lagpoller may be the only one that cannot reach it.
func (s *State) primary() string {
	var claims []string
	for _, name := range s.order {
		if l := &s.members[name].lag; l.Role == bus.Primary && l.Healthy {
			claims = append(claims, name)
		}
	}
	var chosen string
	switch len(claims) {
	case 0:
		if m := s.known(); m != nil && m.lag.Role == bus.Primary {
			chosen = s.topology.Primary
		}
	case 1:
		chosen = claims[0]
	default:
		chosen = s.successor(claims)
	}
	if chosen == "" || s.outdated(s.members[chosen].lag.Incarnation) {
		return ""
	}
	return chosen
}

// successor gives the one of several primaries whose history has the timelines of
// all others in it, each of which ended with a promotion; none if there is no such
// one.
func (s *State) successor(claims []string) string {
	for _, name := range claims {
		m := s.members[name]
		if !slices.ContainsFunc(claims, func(other string) bool { return other != name && !m.succeeds(s.members[other]) }) {
			return name
		}
	}
	return ""
}

// succeeds reports whether m's timeline branched off from o's.
func (m *member) succeeds(o *member) bool {
	a, b := m.lag.Incarnation, o.lag.Incarnation
	return a.SystemID == b.SystemID && a.Timeline > b.Timeline &&
		slices.ContainsFunc(m.points, func(end lsn.Position) bool { return end.Timeline == b.Timeline })
}

// Superseded lists the last messages of the servers that answer as a primary beside
// the one that was promoted in their place, in the configuration's order. Nothing is
// written to them.
func (s *State) Superseded() []bus.Lag {
	var out []bus.Lag
	p := s.known()
	for _, name := range s.order {
		if m := s.members[name]; p != nil && m.lag.Role == bus.Primary && m.lag.Healthy && m.lag.Error == "" && p.succeeds(m) {
			out = append(out, m.lag)
		}
	}
	return out
}

// known gives the primary of the topology, nil if none is named or the name stands for
// another server by now.
func (s *State) known() *member {
	m := s.members[s.topology.Primary]
	if m == nil || !slices.ContainsFunc(s.topology.Members, func(t bus.Member) bool { return t.Backend == m.lag.Backend && t.Address == m.lag.Address }) {
		return nil
	}
	return m
}

// outdated reports whether another member of the same system is on a newer timeline, or
// was when it was seen last.
func (s *State) outdated(i lsn.Incarnation) bool {
	for _, m := range s.members {
		if o := m.last(); o.SystemID == i.SystemID && o.Timeline > i.Timeline {
			return true
		}
	}
	return false
}
