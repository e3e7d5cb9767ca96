package engine

import (
	"context"
	"crypto/subtle"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// perform does what the session asks for. What it does may make the session ask
// for more, which is done in its turn: a call from within has nothing to do.
func (c *client) perform() {
	if c.performing {
		return
	}
	c.performing = true
	for i := 0; i < len(c.s.Actions()) && !c.closed; i++ {
		c.do(&c.s.Actions()[i])
	}
	c.s.Reset()
	c.performing = false
}

func (c *client) do(a *session.Action) {
	switch a.Op {
	case session.OpToClient:
		c.send(a.Data)
	case session.OpToServer:
		if s := c.conns[a.Slot]; s != nil {
			s.send(a.Data)
		}
	case session.OpJudge:
		c.e.judge(c, a.Data)
	case session.OpAcquire:
		c.e.acquire(c, *a.Request)
	case session.OpWithdraw:
		c.e.withdraw(c)
	case session.OpRelease:
		c.e.release(c, a.Slot, a.How)
	case session.OpSettle:
		c.e.probe.join(c, a.Mark)
	case session.OpAwaitFence:
		c.awaitFence()
	case session.OpAdmit:
		c.admit(*a.Token)
	case session.OpCancel:
		c.cancelOn(a.Slot)
	case session.OpLimitIdle:
		c.limitIdle(a)
	case session.OpAnswered:
		c.answered()
	case session.OpAltered:
		c.e.review()
	case session.OpClose:
		c.sayGoodbye()
	}
}

// awaitFence waits for the session's fence, not for long.
func (c *client) awaitFence() {
	c.awaiting = true
	c.wait.since, c.wait.fenced = c.e.now, true
	wait := c.e.cfg.Fencing.Wait.D()
	if c.s.Patient() {
		wait = c.e.cfg.Failover.Wait.D()
	}
	c.e.timers.Set(&c.fenceDue, c.e.now.Add(wait), func() { c.fenceReady() })
}

// fenceReady lets the session go on: its fence is settled, or the time is up.
func (c *client) fenceReady() {
	c.awaiting = false
	c.e.timers.Stop(&c.fenceDue)
	c.s.FenceReady()
	c.perform()
	c.resume()
	c.waitedForFence()
}

// waitedForFence ends the account of a wait for the fence that no connection is wanted
// after: the next one begins anew.
func (c *client) waitedForFence() {
	if !c.awaiting && c.admission == nil {
		c.wait.fenced = false
	}
}

// withdraw forgets whatever the session waits for.
func (e *Engine) withdraw(c *client) {
	c.judging++
	c.awaiting, c.wait.fenced = false, false
	c.withdrawToken()
	e.timers.Stop(&c.fenceDue)
	e.unqueue(c)
}

// answered counts the statement that has been answered.
func (c *client) answered() {
	if c.on >= 0 {
		took := c.e.now.Sub(c.started).Seconds()
		c.e.metrics.Duration[c.target].Observe(took)
		if c.wait.request.Read && c.target == route.RoleReplica {
			c.e.tracker.Table().Costs.Observe(c.wait.request.Shape, c.on, float32(took), c.e.millis())
		}
	}
	c.uncount()
}

// uncount takes the session's statement off its backend.
func (c *client) uncount() {
	if c.on >= 0 {
		c.e.tracker.Table().Backends[c.on].InFlight--
		c.on = -1
	}
}

// count puts the session's statement on a backend.
func (c *client) count(backend int, role route.Role) {
	c.uncount()
	c.on, c.target, c.started = backend, role, c.e.now
	b := &c.e.tracker.Table().Backends[backend]
	if b.InFlight == 0 {
		c.e.heardFrom(backend) // it had nothing to say before
	}
	b.InFlight++
}

// cancelOn asks the server to cancel what runs on the connection in the slot. The
// connection is not lent again until the request is over.
func (c *client) cancelOn(slot session.Slot) {
	if s := c.conns[slot]; s != nil {
		s.cancel()
	}
}

// cancel asks the server to cancel what runs on the connection.
func (s *server) cancel() {
	e := s.e
	to := e.servers[s.site.key.Backend]
	target, name, pid, secret := to.target, to.name, s.pid, s.secret
	s.cancels++
	e.work.Go(func() {
		ctx, stop := context.WithTimeout(e.workCtx, cancelTimeout)
		defer stop()
		err := target.Cancel(ctx, pid, secret)
		e.Post(func() {
			if err != nil {
				e.log.Warn("cancel request failed", obs.KeyBackend, name, obs.KeyError, err)
			}
			s.canceled()
			e.runReady()
		})
	})
}

// A server is asked again, cancelsAgain times, to cancel what ran on a connection
// that has been closed since; first after cancelAgainAfter, then after ten times as
// long. The request may have come before the statement that was sent before it: a
// server process that waits for a statement ignores it, and one that computes does
// not notice that its client is gone.
const (
	cancelsAgain     = 2
	cancelAgainAfter = 250 * time.Millisecond
)

func (s *server) cancelAgain() {
	if s.asked == cancelsAgain || s.e.stopping {
		return
	}
	pause := cancelAgainAfter
	for range s.asked {
		pause *= 10
	}
	s.asked++
	s.e.timers.Set(&s.again, s.e.now.Add(pause), s.cancel)
}

// cancelTimeout bounds a cancel request.
const cancelTimeout = 10 * time.Second

func equalSecret(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
