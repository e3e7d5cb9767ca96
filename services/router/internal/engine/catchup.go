package engine

import (
	"slices"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// A read that no replica can serve yet waits for one, at most fencing.wait, if the
// replicas' latest catch-ups say that one will be there in time. If not, it goes to the
// primary at once.

// chance is what a read has tried of this.
type chance uint8

const (
	untried chance = iota
	taken
	gone
)

// awaitReplica has the session wait for a replica, and reports whether it does.
func (e *Engine) awaitReplica(c *client) bool {
	r := &c.wait.request
	if !r.Read || !r.Strict || e.cfg.Fencing.Wait <= 0 {
		return false
	}
	switch {
	case c.wait.chance == taken:
		e.leaveBehind(c)
		e.metrics.late.Inc()
		c.wait.chance = gone
		return false
	case c.wait.chance == gone:
		return false
	case !e.hopes(r):
		e.metrics.hopeless.Inc()
		c.wait.chance = gone
		return false
	}
	c.wait.chance = taken
	e.behind = append(e.behind, c)
	e.timers.Set(&c.wait.due, e.now.Add(e.cfg.Fencing.Wait.D()), func() {
		e.ready = append(e.ready, grant{c: c})
	})
	return true
}

// hopes reports whether a replica that could serve the read otherwise is likely to
// reach its fence in time.
func (e *Engine) hopes(r *route.Request) bool {
	if r.Fence.Timeline != e.timeline() {
		return false
	}
	free := *r
	free.Fence = lsn.Position{}
	for i := range e.servers {
		if route.Eligible(e.tracker.Table(), &free, i) && e.servers[i].catchup.Within(e.cfg.Fencing.Wait.D(), e.now) {
			return true
		}
	}
	return false
}

// arrivedAt lets the reads go on that the backend can serve now.
func (e *Engine) arrivedAt(backend int) {
	b, s := &e.tracker.Table().Backends[backend], e.servers[backend]
	if s.run != b.Run {
		s.run = b.Run
		s.catchup.Restart()
	}
	s.catchup.Hear(b.Replayed, e.now)
	kept := e.behind[:0]
	for _, c := range e.behind {
		if route.Eligible(e.tracker.Table(), &c.wait.request, backend) {
			e.timers.Stop(&c.wait.due)
			e.metrics.caughtUp.Inc()
			e.ready = append(e.ready, grant{c: c})
			continue
		}
		kept = append(kept, c)
	}
	clear(e.behind[len(kept):])
	e.behind = kept
}

// leaveBehind ends the session's wait for a replica, if it waits.
func (e *Engine) leaveBehind(c *client) {
	if i := slices.Index(e.behind, c); i >= 0 {
		e.behind = slices.Delete(e.behind, i, i+1)
	}
}

// expect measures how long the replicas take to reach a position from now on.
func (e *Engine) expect(at lsn.Position) {
	for i := range e.servers {
		b := &e.tracker.Table().Backends[i]
		if b.Role == route.RoleReplica && !b.Replayed.Covers(at) {
			e.servers[i].catchup.Want(at, e.now)
		}
	}
}
