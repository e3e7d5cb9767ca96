package topology

import (
	"time"

	"github.com/pgpilot/pgpilot/services/router/internal/breaker"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// Expire marks backends whose news is older than health.stale_after.
func (t *Tracker) Expire(now time.Time) {
	for i := range t.nodes {
		if now.Sub(t.nodes[i].heard) > t.settings.StaleAfter {
			t.table.Backends[i].Fresh = false
		}
		t.warm(i, now)
	}
}

// Failed notes that the backend refused a connection or did not answer in time: it
// is left alone for a while, longer each time. It reports whether the backend was
// used until now.
func (t *Tracker) Failed(i int, now time.Time) (opened bool) {
	opened = t.nodes[i].breaker.Failed(&t.settings.Breaker, now)
	t.judge(i, now)
	return opened
}

// Lost notes that the backend has ended a connection by itself. It reports whether
// that was the last that could be borne.
func (t *Tracker) Lost(i int, now time.Time) (opened bool) {
	opened = t.nodes[i].breaker.Lost(&t.settings.Breaker, now)
	t.judge(i, now)
	return opened
}

// Connected notes that a connection to the backend was made.
func (t *Tracker) Connected(i int, now time.Time) {
	t.nodes[i].breaker.Succeeded()
	t.judge(i, now)
}

// Breaker gives the state of the router's own evidence about the backend.
func (t *Tracker) Breaker(i int) breaker.State { return t.nodes[i].breaker.State() }

// Probes gives the backends that are to be probed now; Connected or Failed is called
// with each outcome. next is when to ask again, zero if there is nothing to wait for.
func (t *Tracker) Probes(now time.Time) (due []int, next time.Time) {
	for i := range t.nodes {
		n := &t.nodes[i]
		switch {
		case n.leaving:
		case n.breaker.Probe(now):
			due = append(due, i)
		case n.breaker.State() == breaker.Open && (next.IsZero() || n.breaker.Until().Before(next)):
			next = n.breaker.Until()
		}
	}
	return due, next
}

// judge brings the router's own evidence into the table, where it stays apart from
// the lagpoller's.
func (t *Tracker) judge(i int, now time.Time) {
	t.table.Backends[i].Down = !t.nodes[i].breaker.Usable()
	t.warm(i, now)
}

// warm gives a backend its share: little of it right after it was away.
func (t *Tracker) warm(i int, now time.Time) {
	n, b := &t.nodes[i], &t.table.Backends[i]
	switch here := b.Role == route.RoleReplica && b.Healthy && !b.Down; {
	case !here:
		n.away = n.away || n.run != 0 // one that was never seen is not expected to come back
	case n.away:
		n.away, n.back = false, now
	}
	b.Share = n.weight * route.Ramp(now.Sub(n.back), t.settings.SlowStart)
}
