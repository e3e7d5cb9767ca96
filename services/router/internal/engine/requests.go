package engine

import (
	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// A cancel request is meant for what its client has sent before it, and is over when it
// can stop nothing that comes behind (PostgreSQL documentation: "Message Flow: Canceling
// Requests in Progress"). So is one for a session that is on its way between routers.

// Cancel cancels what the session with this key runs, and calls over once no request
// is under way that could stop anything of it; from any goroutine.
func (e *Engine) Cancel(key handoff.CancelKey, over func(found bool)) {
	if !e.Post(func() {
		c := e.byPID[key.PID]
		switch {
		case c != nil && equalSecret(c.s.Record().Cancel.Secret, key.Secret):
			c.cancel(func() { over(true) })
			e.runReady()
		case !e.cancelUnderway(key, over):
			over(false)
		}
	}) {
		over(false)
	}
}

// cancel cancels what the client has sent and calls over when no request can hit what it
// sends from then on. A statement that has not left yet, in a transaction or because a
// request is under way for the one before, is canceled when it has.
func (c *client) cancel(over func()) {
	c.hear()
	if c.closed {
		over()
		return
	}
	if c.unsent() {
		c.early = append(c.early, over)
		return
	}
	c.s.Cancel()
	c.perform()
	c.insist(0)
	c.whenCanceled(over)
	c.resume()
}

// unsent reports whether a cancel request has come too early: the statement that it is for
// waits, and is not to be answered here.
func (c *client) unsent() bool {
	return c.s.Unsent() || len(c.unread) > 0 && c.s.Reads() && c.canceling()
}

// hear takes what the client has sent by now, unless the session has something to do. What
// waits for the end of a cancel request is only taken note of.
func (c *client) hear() {
	if c.closed || c.closing || c.spent || c.broken || c.s.Phase() != session.Idle {
		return
	}
	if !c.listens() && (!c.canceling() || len(c.unread) > 0) {
		return
	}
	c.receive()
	c.resume()
}

// whenCanceled calls over when the cancel requests of the session are over that are under
// way.
func (c *client) whenCanceled(over func()) {
	for _, s := range c.conns {
		if s != nil && s.cancels > 0 {
			s.over = append(s.over, over)
			return
		}
	}
	over()
}

// cancelEarly cancels the statement that has left, or that does not run any more.
func (c *client) cancelEarly() {
	early := c.early
	c.early = nil
	c.s.Cancel()
	c.perform()
	c.insist(0)
	for _, over := range early {
		c.whenCanceled(over)
	}
}

// insist cancels the statement again if the server has said nothing for a while. A process
// of it that has not taken the statement up yet ignores a request, and this one may have left
// right behind it. Once it has said anything, what runs may be a statement behind that one.
func (c *client) insist(times int) {
	s := c.conns[c.s.Slot()]
	if times == cancelsAgain || c.closed || s == nil || c.s.Phase() != session.Busy {
		return
	}
	said, pause := s.said, cancelAgainAfter
	for range times {
		pause *= 10
	}
	c.e.timers.Set(&c.insists, c.e.now.Add(pause), func() {
		if c.closed || s.owner != c || s.said != said || c.s.Phase() != session.Busy {
			return
		}
		c.s.Cancel()
		c.perform()
		c.insist(times + 1)
	})
}

// endEarly ends the requests with the session.
func (c *client) endEarly() {
	for _, over := range c.early {
		over()
	}
	c.early = nil
}

// cancelUnderway notes a cancel request for a session that is on its way here or away,
// and reports whether there is one with the key. What leaves takes it along, if its client
// has sent something that it could be meant for.
func (e *Engine) cancelUnderway(key handoff.CancelKey, over func(found bool)) bool {
	for _, d := range e.departing {
		if d.rec.Cancel.PID != key.PID || !equalSecret(d.rec.Cancel.Secret, key.Secret) {
			continue
		}
		if len(d.rec.Unread) == 0 && !poll.Readable(d.fds[0]) {
			over(true)
		} else {
			d.requests = append(d.requests, over)
		}
		return true
	}
	for _, a := range e.arriving {
		if a.rec.Cancel.PID == key.PID && equalSecret(a.rec.Cancel.Secret, key.Secret) {
			a.requests = append(a.requests, over)
			return true
		}
	}
	return false
}

// Leave ends sessions as soon as each is idle, also those that are on their way here or
// away; from any goroutine.
func (e *Engine) Leave(sessions []string) {
	e.Post(func() {
		for _, id := range sessions {
			if c := e.clients[id]; c != nil {
				c.end()
			}
			if d := e.departing[id]; d != nil {
				d.ends = true
			}
			if a := e.arriving[id]; a != nil {
				a.ends = true
			}
		}
		e.runReady()
	})
}

// end ends the session as soon as it is idle, wherever that is.
func (c *client) end() {
	if c.closed {
		return
	}
	c.ends = true
	c.s.Stop()
	c.perform()
}
