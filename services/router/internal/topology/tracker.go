package topology

import (
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// Tracker keeps the table.
type Tracker struct {
	table      route.Table
	nodes      []node
	staleAfter time.Duration
	slowStart  time.Duration
}

// node is what the table does not show of a backend.
type node struct {
	// run numbers the incarnations seen of this backend, from 1; 0: none yet.
	run         uint32
	incarnation lsn.Incarnation
	// ended are the latest runs before it. Start times do not order runs: a server's
	// clock may be set back.
	ended    []lsn.Incarnation
	geometry lsn.Geometry
	heard    time.Time
	// downUntil and failures are the router's own evidence.
	downUntil time.Time
	failures  int
	// weight is its configured share of the reads; back is when it came back after it
	// was away.
	weight float32
	away   bool
	back   time.Time
}

// New makes a tracker of backends by name, the configured primary first. Until
// the lagpoller speaks, that one is taken for the primary and nothing is known
// of the others.
func New(names []string, staleAfter time.Duration) *Tracker {
	t := &Tracker{staleAfter: staleAfter, nodes: make([]node, len(names))}
	for i, n := range names {
		t.table.Backends = append(t.table.Backends, route.Backend{Name: n, Share: 1})
		t.nodes[i].geometry, t.nodes[i].weight = lsn.DefaultGeometry, 1
	}
	t.table.Costs = route.NewCosts(len(names))
	t.table.Backends[0].Role = route.RolePrimary
	return t
}

// Table gives the table. Its owner may count in-flight statements in it.
func (t *Tracker) Table() *route.Table { return &t.table }

// SetStaleAfter changes health.stale_after.
func (t *Tracker) SetStaleAfter(d time.Duration) { t.staleAfter = d }

// SetSlowStart changes routing.slow_start.
func (t *Tracker) SetSlowStart(d time.Duration) { t.slowStart = d }

// SetWeight changes a backend's share of the reads; one below 1 is 1.
func (t *Tracker) SetWeight(i, weight int) { t.nodes[i].weight = float32(max(1, weight)) }

// Run numbers the backend's current run; 0 while none is known.
func (t *Tracker) Run(i int) uint32 { return t.nodes[i].run }

// Incarnation gives the backend's current run, as far as it is known.
func (t *Tracker) Incarnation(i int) lsn.Incarnation { return t.nodes[i].incarnation }

// Geometry gives the layout of the backend's WAL.
func (t *Tracker) Geometry(i int) lsn.Geometry { return t.nodes[i].geometry }

// Lag takes an observation. It reports whether the backend is one of the table's.
// Sequence numbers are not looked at: positions of one run only ever count when
// they are higher, and a lagpoller that restarts counts from 1 again.
func (t *Tracker) Lag(m *bus.Lag, now time.Time) bool {
	i := t.Index(m.Backend)
	if i < 0 {
		return false
	}
	n, b := &t.nodes[i], &t.table.Backends[i]
	n.heard = now
	defer t.warm(i, now)
	b.Fresh, b.Healthy = true, m.Healthy
	if m.LagMillis >= 0 {
		b.Lag = time.Duration(m.LagMillis * float64(time.Millisecond))
	}
	if m.Incarnation.IsZero() {
		return true
	}
	if !t.observe(i, m.Incarnation) {
		return true // of a run that has ended: says nothing of the positions
	}
	if m.Geometry.BlockSize != 0 {
		n.geometry = m.Geometry
	}
	switch m.Role {
	case bus.Replica:
		b.Role = route.RoleReplica
		at := lsn.Position{Timeline: m.Incarnation.Timeline, LSN: m.ReplayLSN}
		if b.Replayed.Timeline != at.Timeline || at.LSN > b.Replayed.LSN {
			b.Replayed = at
		}
	case bus.Primary:
		b.Role = route.RolePrimary
		b.Replayed = lsn.Position{}
	}
	return true
}

// Observe takes the run seen by a connection of the router's own and numbers it;
// 0 means that the connection's run has ended already.
func (t *Tracker) Observe(i int, inc lsn.Incarnation) uint32 {
	if inc.SameRun(t.nodes[i].incarnation) {
		return t.nodes[i].run
	}
	if !t.observe(i, inc) {
		return 0
	}
	return t.nodes[i].run
}

// maxEnded is how many ended runs of a backend are remembered: as many as could
// still be spoken of by news on its way.
const maxEnded = 16

// observe makes inc the backend's run if it is not one that has ended.
func (t *Tracker) observe(i int, inc lsn.Incarnation) bool {
	n := &t.nodes[i]
	switch {
	case inc.SameRun(n.incarnation):
		if inc.Timeline != 0 {
			n.incarnation = inc
		}
		return true
	case slices.ContainsFunc(n.ended, inc.SameRun):
		return false
	}
	if n.run != 0 {
		if len(n.ended) == maxEnded {
			n.ended = slices.Delete(n.ended, 0, 1)
		}
		n.ended = append(n.ended, n.incarnation)
	}
	n.run++
	n.incarnation = inc
	t.table.Backends[i].Replayed = lsn.Position{}
	return true
}

// Topology takes the news of who the primary is. If the lagpoller names none
// although a server claims to be one (two do, or its timeline has ended), nothing is
// written; if none claims to be, the last one is waited for.
func (t *Tracker) Topology(m *bus.Topology) {
	claims := 0
	for _, mem := range m.Members {
		if mem.Role == bus.Primary && mem.Healthy {
			claims++
		}
	}
	switch {
	case m.Primary != "":
		if i := t.Index(m.Primary); i >= 0 {
			t.table.Primary = i
		}
	case claims > 0: // more than one, or one that a promotion has left behind
		t.table.Primary = route.None
	}
}

// Expire marks backends whose news is older than health.stale_after.
func (t *Tracker) Expire(now time.Time) {
	for i := range t.nodes {
		if now.Sub(t.nodes[i].heard) > t.staleAfter {
			t.table.Backends[i].Fresh = false
		}
		if b := &t.table.Backends[i]; b.Down && !now.Before(t.nodes[i].downUntil) {
			b.Down = false
		}
		t.warm(i, now)
	}
}

// warm gives a backend its share: little of it right after it was away.
func (t *Tracker) warm(i int, now time.Time) {
	n, b := &t.nodes[i], &t.table.Backends[i]
	switch here := b.Role == route.RoleReplica && b.Healthy && !b.Down; {
	case !here:
		n.away = n.run != 0 // one that was never seen is not expected to come back
	case n.away:
		n.away, n.back = false, now
	}
	b.Share = n.weight * route.Ramp(now.Sub(n.back), t.slowStart)
}

// Backoff of a backend that refuses connections: from, doubling up to.
const (
	backoffFrom = 200 * time.Millisecond
	backoffUpTo = 5 * time.Second
)

// Failed notes that a connection to the backend failed; it is left alone for a
// while, longer each time.
func (t *Tracker) Failed(i int, now time.Time) {
	n := &t.nodes[i]
	n.downUntil = now.Add(min(backoffFrom<<min(n.failures, 10), backoffUpTo))
	n.failures++
	t.table.Backends[i].Down = true
	t.warm(i, now)
}

// Connected notes that a connection to the backend was made.
func (t *Tracker) Connected(i int) {
	t.nodes[i].failures = 0
	t.table.Backends[i].Down = false
}

// Index gives a backend's place in the table, -1 for one that is not there.
func (t *Tracker) Index(name string) int {
	return slices.IndexFunc(t.table.Backends, func(b route.Backend) bool { return b.Name == name })
}
