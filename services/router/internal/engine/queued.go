package engine

import (
	"fmt"
	"slices"

	"github.com/pgpilot/pgpilot/services/router/internal/pool"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// grant is a session that can go on: with a connection that came back, or, where
// s is nil, by asking again.
type grant struct {
	c *client
	s *server
}

// queue makes the session wait in the pool's queue; fill says that there is no
// connection on its way to it.
func (e *Engine) queue(c *client, p *site, fill bool) {
	if p.Waiters() >= e.cfg.Pool.MaxWaiters {
		e.refuse(c, &session.Problem{
			Code:    "53300",
			Message: fmt.Sprintf("too many sessions are waiting for a connection to %s", e.servers[p.key.Backend].name),
			Detail:  fmt.Sprintf("pool.max_waiters is %d.", e.cfg.Pool.MaxWaiters),
			Hint:    "Raise pool.max_size, or run fewer statements at once.",
		})
		return
	}
	e.leaveBehind(c)
	c.wait.in = p
	w := pool.Waiter[*client]{Startup: c.login.Startup, For: c}
	if lostOn(&c.wait.request, p.key.Backend) {
		w.Since = e.now
	}
	p.Wait(w)
	// Counted from here, so that sessions that come while connections are being made
	// do not all choose the same server.
	c.count(p.key.Backend, e.tracker.Table().Backends[p.key.Backend].Role)
	e.limitWait(c)
	if fill {
		p.fill()
	}
}

// strand makes a session wait for a primary to appear.
func (e *Engine) strand(c *client) {
	e.leaveBehind(c)
	if e.probe.seen() == 0 {
		e.probe.look()
	}
	if !c.wait.stranded {
		c.wait.stranded = true
		e.stranded = append(e.stranded, c)
	}
	e.limitWait(c)
}

// unavailable says why a session got no connection of the pool in time.
func (p *site) unavailable() *session.Problem {
	name := p.e.servers[p.key.Backend].name
	problem := &session.Problem{Code: "57P03", Message: fmt.Sprintf("no connection to %s within %s", name, p.e.cfg.Pool.AcquireTimeout)}
	switch {
	case p.said != nil:
		problem.Code = p.said.Code // too many connections, or it starts or stops
		problem.Detail, problem.Hint = "The server says: "+p.said.Message+".", p.said.Hint
	case p.refusal != "":
		problem.Detail, problem.Hint = "The server cannot be reached.", "The router's log says why."
	default:
		problem.Detail = fmt.Sprintf("All %d connections of this router's pool are in use.", p.Max)
		problem.Hint = "pool.max_size and pool.acquire_timeout set these limits."
	}
	return problem
}

// unqueue ends the session's wait for a connection, if it waits.
func (e *Engine) unqueue(c *client) {
	e.timers.Stop(&c.wait.due)
	c.cross.active = false
	e.leaveBehind(c)
	if p := c.wait.in; p != nil {
		p.Withdraw(c)
		c.wait.in = nil
		c.uncount()
	}
	if c.wait.stranded {
		c.wait.stranded = false
		i := slices.Index(e.stranded, c)
		e.stranded = slices.Delete(e.stranded, i, i+1)
	}
	for i := range e.ready {
		if e.ready[i].c == c {
			if s := e.ready[i].s; s != nil {
				e.ready[i] = grant{s: s} // the connection came too late
			} else {
				e.ready[i] = grant{}
			}
		}
	}
}

// refuse tells the session that there is no connection for it.
func (e *Engine) refuse(c *client, p *session.Problem) {
	e.unqueue(c)
	c.s.Refuse(p)
	c.perform()
	c.resume()
}

// retryStranded looks for a primary again.
func (e *Engine) retryStranded() {
	if len(e.stranded) == 0 || e.tracker.Table().Primary == route.None {
		return
	}
	for _, c := range e.stranded {
		c.wait.stranded = false
		e.ready = append(e.ready, grant{c: c})
	}
	e.stranded = e.stranded[:0]
}

// runReady lets sessions go on that can, and those go away that are to.
func (e *Engine) runReady() {
	e.grantReady()
	for e.sendAway() {
		e.grantReady()
	}
}

func (e *Engine) grantReady() {
	for i := 0; i < len(e.ready); i++ {
		g := e.ready[i]
		e.ready[i] = grant{}
		switch {
		case g.c == nil && g.s == nil:
			continue
		case g.c == nil:
			g.s.site.giveBack(g.s)
			continue
		case g.s == nil:
			e.lend(g.c)
		case e.stillFits(g.c, g.s):
			e.hand(g.c, g.s, e.whyWaited(g.c, g.s))
		default:
			e.unqueue(g.c)
			g.s.site.giveBack(g.s)
			e.lend(g.c)
		}
		g.c.perform()
		g.c.resume()
	}
	e.ready = e.ready[:0]
}

// stillFits checks a decision again that was made before a wait: the server may
// have restarted since, or no longer be the primary.
func (e *Engine) stillFits(c *client, s *server) bool {
	b := s.site.key.Backend
	table := e.tracker.Table()
	switch {
	case s.broken || s.Run != e.tracker.Run(b):
		return false
	case b == table.Primary:
		return true
	}
	return route.Eligible(table, &c.wait.request, b)
}

// whyWaited gives the reason of a decision made before a wait.
func (e *Engine) whyWaited(c *client, s *server) route.Reason {
	r := &c.wait.request
	if s.site.key.Backend != e.tracker.Table().Primary {
		return r.OnReplica()
	}
	if !r.Read {
		return r.Reason
	}
	return route.Pick(e.tracker.Table(), r).Reason
}
