package topology

import (
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// Lag takes an observation. It reports whether the backend is one of the table's.
// Sequence numbers are not looked at: positions of one run only ever count when
// they are higher, and a lagpoller that restarts counts from 1 again.
func (t *Tracker) Lag(m *bus.Lag, now time.Time) bool {
	i := t.Find(m.Publisher, m.Backend, m.Address)
	if i < 0 {
		return false
	}
	n, b := &t.nodes[i], &t.table.Backends[i]
	n.heard = now
	defer t.warm(i, now)
	b.Fresh = true
	current := m.Incarnation.IsZero() || !n.outdated(m) && t.observe(i, m.Incarnation, now)
	n.hear(m, now, t.settings.StaleAfter)
	b.Healthy = n.healthy()
	if lag, known := n.lag(now); known {
		b.Lag = lag
	}
	if m.Incarnation.IsZero() || !current {
		return true // of a run that has ended: says nothing of the positions
	}
	n.asked, n.clock = m.AskedBoot, m.Clock
	if m.Incarnation.Timeline < n.incarnation.Timeline {
		return true // it has gone on since
	}
	n.been = m.Incarnation
	t.compare(i)
	if m.Geometry.BlockSize != 0 {
		n.geometry = m.Geometry
	}
	switch m.Role {
	case bus.Replica:
		b.Role = route.RoleReplica
		t.advance(i, lsn.Position{Timeline: m.Incarnation.Timeline, LSN: m.ReplayLSN})
		t.freshen(i)
	case bus.Primary:
		b.Role = route.RolePrimary
		b.Replayed = lsn.Position{}
		t.sample(i, m)
	}
	return true
}

// Replayed takes from a connection of the router's own how far a replica has replayed in
// the run that the connection belongs to, and reports whether that is news.
func (t *Tracker) Replayed(i int, run uint32, at lsn.Position) bool {
	n, b := &t.nodes[i], &t.table.Backends[i]
	if run == 0 || run != n.run || b.Role != route.RoleReplica || at.Timeline < n.incarnation.Timeline {
		return false
	}
	n.incarnation.Timeline, n.been.Timeline = at.Timeline, at.Timeline
	moved := t.advance(i, at)
	t.freshen(i)
	return moved
}

// advance raises how far a backend has replayed. Positions of one timeline only grow.
func (t *Tracker) advance(i int, at lsn.Position) bool {
	b := &t.table.Backends[i]
	if b.Replayed.Timeline == at.Timeline && at.LSN <= b.Replayed.LSN {
		return false
	}
	b.Replayed = at
	t.compare(i)
	return true
}

// compare finds out whether a backend has left the primary's history: it has replayed
// what a promotion has lost, or is of another cluster.
func (t *Tracker) compare(i int) {
	b := &t.table.Backends[i]
	_, lost, known := t.primary.history.Carry(b.Replayed)
	b.Diverged = lost && known || t.Foreign(i)
}

// Foreign reports whether a backend is of another database cluster than the primary. One that has been
// stays so until there are news of another run.
func (t *Tracker) Foreign(i int) bool {
	own, primary := t.nodes[i].been.SystemID, t.primary.history.SystemID
	return own != 0 && primary != 0 && own != primary
}

// Belongs takes from a connection of the router's own of which cluster a backend is.
func (t *Tracker) Belongs(i int, run uint32, system uint64) {
	if n := &t.nodes[i]; run != 0 && run == n.run {
		n.been.SystemID = system
		t.compare(i)
	}
}

// Sight is when a run was seen at first hand: not before At, which is Boot microseconds since the
// machine was started, by Settings.Clock. Zeros are a moment before any other.
type Sight struct {
	At   time.Time
	Boot int64
}

// Observe takes the run seen by a connection of the router's own and numbers it;
// 0 means that the connection's run has ended already. What was seen since another run was
// heard of is later than that: news may be old, or be about another server of the same name.
func (t *Tracker) Observe(i int, inc lsn.Incarnation, seen Sight) uint32 {
	n := &t.nodes[i]
	n.ended = slices.DeleteFunc(n.ended, func(r ended) bool { return r.SameRun(inc) && r.replaced.Before(seen.At) })
	if !inc.SameRun(n.incarnation) && !t.observe(i, inc, seen.At) {
		return 0
	}
	if seen.Boot > n.asked || n.clock != t.settings.Clock {
		n.asked, n.clock = seen.Boot, t.settings.Clock
	}
	return n.run
}

// Recognize numbers a run that another router tells of; 0 means that it is not the
// backend's current one, as far as is known here. What is told does not make it so: it
// may be about a run that has ended.
func (t *Tracker) Recognize(i int, inc lsn.Incarnation) uint32 {
	n := &t.nodes[i]
	switch {
	case inc.Postmaster == 0:
		return 0
	case n.incarnation.IsZero():
		return t.Observe(i, inc, Sight{})
	case inc.SameRun(n.incarnation):
		return n.run
	}
	return 0
}

// maxEnded is how many ended runs of a backend are remembered: as many as could
// still be spoken of by news on its way.
const maxEnded = 16

// ended is a run that another has replaced, as was known then.
type ended struct {
	lsn.Incarnation
	replaced time.Time
}

// observe makes inc, known at now, the backend's run if it is not one that has ended.
func (t *Tracker) observe(i int, inc lsn.Incarnation, now time.Time) bool {
	n := &t.nodes[i]
	switch {
	case inc.SameRun(n.incarnation):
		if inc.Timeline >= n.incarnation.Timeline { // another lagpoller may be behind
			n.incarnation = inc
		}
		return true
	case slices.ContainsFunc(n.ended, func(r ended) bool { return r.SameRun(inc) }):
		return false
	}
	if !n.incarnation.IsZero() {
		if len(n.ended) == maxEnded {
			n.ended = slices.Delete(n.ended, 0, 1)
		}
		n.ended = append(n.ended, ended{n.incarnation, now})
	}
	n.asked, n.clock = 0, ""
	n.run++
	n.incarnation = inc
	t.table.Backends[i].Replayed = lsn.Position{}
	t.table.Backends[i].Run, t.table.Backends[i].AsOf = n.run, 0
	t.compare(i)
	return true
}
