package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// Topology takes the news of who the primary is; from any goroutine.
func (e *Engine) Topology(m bus.Topology) {
	e.Post(func() {
		was := e.tracker.Table().Primary
		timeline := e.timeline()
		for _, mem := range m.Members {
			if mem.Backend == m.Primary && e.tracker.Find(m.Publisher, mem.Backend, mem.Address) < 0 {
				e.isAbroad(mem.Backend, mem.Address)
			}
		}
		if e.tracker.Topology(&m, e.now) {
			e.primaryMoved(was)
		}
		e.warnOfPassed()
		if e.timeline() != timeline {
			e.followPromotion()
		}
		e.probe.start()
		e.barrier.start()
		e.retryStranded()
		e.runReady()
	})
}

// warnOfPassed says once that the server which lagpollers name is not followed, and what to do
// if it is to be.
func (e *Engine) warnOfPassed() {
	now := e.tracker.Passed()
	if now != e.passed && now != "" {
		e.log.Warn("the server that is named as the primary is not followed: another one has been on a later timeline, and nobody has seen it go back. "+
			"If it is gone for good, take it out of the configuration", obs.KeyBackend, now, "was", e.nameOf(e.lastPrimary))
	}
	e.passed = now
}

// timeline is the primary's, as far as it is known.
func (e *Engine) timeline() lsn.Timeline { return e.tracker.History().Now.Timeline }

// primaryMoved deals with another server, or none, being the primary. Where another
// one is, the connections to the former one are closed, whatever runs on them: what
// they write from now on would be lost, or is not to be written at all.
func (e *Engine) primaryMoved(was int) {
	now := e.tracker.Table().Primary
	e.metrics.PrimaryChanges.Inc()
	if now == route.None {
		e.log.Error("nothing is written: it is not certain which server is the primary", "claimants", e.claimants())
		return
	}
	e.log.Warn("another server is the primary", obs.KeyBackend, e.servers[now].name, "was", e.nameOf(was))
	e.resize()
	for i := range e.servers {
		if i == now || i != was && i != e.lastPrimary {
			continue
		}
		e.abandon(i)
	}
	e.retireAll(now)
	e.lastPrimary = now
}

// abandon closes the connections to a server that is no longer the primary.
func (e *Engine) abandon(backend int) {
	e.evacuateWaiters(backend)
	for k, p := range e.pools {
		if k.Backend != backend {
			continue
		}
		for _, s := range p.all() {
			if c := s.owner; c != nil {
				s.broken = true
				c.resume()
			} else if !s.closed {
				p.discard(s)
			}
		}
	}
}

func (e *Engine) nameOf(backend int) string {
	if backend == route.None {
		return "none"
	}
	return e.servers[backend].name
}

// followPromotion carries every session's fence over to the primary's new timeline.
func (e *Engine) followPromotion() {
	for _, c := range e.clients {
		if c.follow() {
			c.perform()
		}
	}
}

// follow carries the session's fence over to the primary's timeline. If that shows
// that a write is lost, it tells so, and reports true: there is something to perform.
func (c *client) follow() bool {
	f, h := c.s.Fence(), c.e.tracker.History()
	at := f.Position()
	if at.IsZero() || at.Timeline == h.Now.Timeline || !f.Follow(h) {
		return false
	}
	c.e.metrics.FenceLost.Inc()
	c.log.Warn("a write of this session is not part of what the new primary has", "written", at.LSN.String(), "timeline", uint32(at.Timeline), "kept", f.Position().LSN.String())
	c.s.Warn("01000", "a write of this session was lost when another server became the primary", "Check the data that was written last.")
	return true
}

// primaryAway reports whether the primary cannot be reached or is not known.
func (e *Engine) primaryAway() bool {
	t := e.tracker.Table()
	return t.Primary == route.None || t.Backends[t.Primary].Down
}

// withoutPrimary gives a replica for a read that would have to wait for a primary which
// cannot be reached, where the operator wants an old answer rather than none. What the
// session asks of it is forgotten for this read.
func (e *Engine) withoutPrimary(r *route.Request, choice route.Choice) (route.Choice, bool) {
	reads := r.Read || r.Reason == route.ReasonFenceFallback
	if e.cfg.Fencing.OnPrimaryLoss != config.Serve || !reads || choice.Backend != e.tracker.Table().Primary || !e.primaryAway() {
		return choice, false
	}
	old := route.Request{Read: true, Tried: r.Tried, Again: r.Again, AllToPrimary: r.AllToPrimary, Policy: r.Policy, Turn: r.Turn, Shape: r.Shape, Now: r.Now}
	lost := route.Pick(e.tracker.Table(), &old)
	if lost.Reason != route.ReasonRead {
		return choice, false
	}
	*r = old
	return route.Choice{Backend: lost.Backend, Reason: route.ReasonPrimaryLost}, true
}

// lookAgain has those who wait for a primary that cannot be reached look for a replica.
func (e *Engine) lookAgain() {
	if p := e.tracker.Table().Primary; e.cfg.Fencing.OnPrimaryLoss == config.Serve && p != route.None && e.primaryAway() {
		e.evacuateWaiters(p)
	}
}

// limitWait ends the session's wait after pool.acquire_timeout, counted from its
// start, or, as long as what it waits for is a primary, after failover.wait.
func (e *Engine) limitWait(c *client) {
	up := c.wait.since.Add(min(e.patience(true), e.patience(false)))
	e.timers.Set(&c.wait.due, up, func() { e.waitedLong(c) })
}

func (e *Engine) patience(away bool) time.Duration {
	if away {
		return e.cfg.Failover.Wait.D()
	}
	return e.cfg.Pool.AcquireTimeout.D()
}

// waitedLong ends the wait unless there is still reason for it.
func (e *Engine) waitedLong(c *client) {
	p := c.wait.in
	away := p == nil || p.key.Backend == e.tracker.Table().Primary && e.primaryAway()
	if up := c.wait.since.Add(e.patience(away)); e.now.Before(up) {
		e.timers.Set(&c.wait.due, up, func() { e.waitedLong(c) })
		return
	}
	switch {
	case p == nil:
		e.refuse(c, e.noPrimary())
	case away:
		e.refuse(c, &session.Problem{
			Code:    "57P03",
			Message: fmt.Sprintf("the primary could not be reached within %s", e.cfg.Failover.Wait),
			Detail:  fmt.Sprintf("It is %s, and no other server was promoted.", e.servers[p.key.Backend].name),
			Hint:    "Start it again or promote a replica. failover.wait says how long statements wait for that.",
		})
	default:
		e.refuse(c, p.unavailable())
	}
}

// noPrimary is the error for what needs the primary while there is none.
func (e *Engine) noPrimary() *session.Problem {
	problem := &session.Problem{Code: "57P03", Message: "no server accepts writes"}
	if now := e.tracker.Table().Primary; now != route.None {
		// What it has seen may never come back: the servers may have gone back to a former primary.
		problem.Message = "terminating connection because the primary that served it is not known any more"
		problem.Detail = fmt.Sprintf("It was another one than %s, of which this router has had no news.", e.nameOf(now))
		problem.Hint = "Connect again. If new connections fail as well, see whether lagpollers run and reach all servers."
		problem.Fatal = true
		return problem
	}
	if names := e.claimants(); len(names) > 0 {
		problem.Detail = "Servers that claim to be the primary: " + strings.Join(names, ", ") + "."
		problem.Hint = "Stop the one that is not to be the primary."
	} else {
		problem.Detail = "None of the servers that can be reached is a primary."
		problem.Hint = "Check the addresses in primary and replicas, and that one of them is a primary; /readyz and the lagpoller's log say what is wrong with each."
	}
	return problem
}

// claimants names the servers that say they are the primary.
func (e *Engine) claimants() (names []string) {
	for _, b := range e.tracker.Table().Backends {
		if b.Role == route.RolePrimary && b.Healthy {
			names = append(names, b.Name)
		}
	}
	return names
}
