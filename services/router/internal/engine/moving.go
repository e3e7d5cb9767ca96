package engine

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/router/internal/intake"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

const (
	// departuresAtOnce is how many sessions may be on their way out. Descriptors in flight
	// count against the file limit of this user (unix(7)).
	departuresAtOnce = 32
	// hurriesAtOnce is how many of them may be in the middle of their work, until another router
	// has them: the others are better served here meanwhile than kept waiting on their way.
	hurriesAtOnce = 4
	// arrivalTimeout is how long the arrival of one of them is waited for.
	arrivalTimeout = time.Second
	// orphanTimeout is how long a router that stops waits for a listener to give its
	// sessions to. Where all of pgpilot is stopped, none will come.
	orphanTimeout = 2 * time.Second
)

// departure is a session that has been offered to a listener. Until that has taken it,
// it is this router's, and nobody's loop watches it.
type departure struct {
	e      *Engine
	rec    *handoff.Record
	fds    []int
	began  time.Time
	leaves bool
	// hurries says that its client waits, or will soon; overdue is when it counts no longer
	// among those that do, should nothing be heard of it.
	hurries bool
	overdue poll.Timer
	// requests are the cancel requests that have come meanwhile for what its client has
	// sent, ends says that it has been told to end.
	requests []func(found bool)
	ends     bool
}

// Stop ends the router: from any goroutine. Its sessions go to another router, each at
// its next safe point, if a listener takes them; otherwise they end when they are idle.
// All that are left after the given time end then.
func (e *Engine) Stop(within time.Duration) {
	e.Post(func() {
		e.stopping = true
		e.opts.Stopping()
		e.timers.Set(&e.drain, e.now.Add(within), func() {
			e.overdue = true
			for _, c := range e.clients {
				if c.closing { // its client has been reading all the while
					c.destroy()
					continue
				}
				c.s.Kill()
				c.perform()
			}
		})
		e.endOrphans()
		for _, c := range e.clients {
			e.dismiss(c)
		}
		e.runReady()
		e.endIfEmpty()
	})
}

// dismiss has a session leave the router.
func (e *Engine) dismiss(c *client) {
	c.leaves = true
	e.wouldLeave(c)
}

// endOrphans ends the sessions of a router that stops when nobody has taken any for a
// while. A listener that has just refused one, or that is being connected to again, is
// missing for a moment only.
func (e *Engine) endOrphans() {
	if e.opts.Way() != nil || e.lastWay.IsZero() {
		e.lastWay = e.now
	}
	if e.now.Sub(e.lastWay) < orphanTimeout {
		e.timers.Set(&e.orphan, e.now.Add(orphanTimeout/10), e.endOrphans)
		return
	}
	for _, c := range e.clients {
		c.s.Stop()
		c.perform()
	}
	e.runReady()
}

// endIfEmpty ends the loop of a router that stops once it has no sessions any more.
func (e *Engine) endIfEmpty() {
	e.done = e.done || e.stopping && len(e.clients)+len(e.departing)+len(e.arriving) == 0
}

// wouldLeave notes that a session could go now, if it is at a safe point.
func (e *Engine) wouldLeave(c *client) {
	if c.queued || !c.movable() {
		return
	}
	c.queued = true
	e.leavers = append(e.leavers, c) // the loop comes by (runReady)
}

// movable reports whether the session is at a safe point, with everything that it would
// take along.
func (c *client) movable() bool {
	if c.stays || c.closed || c.closing || c.broken || c.ended || c.spent || c.performing || c.feeding || len(c.out) > 0 || !c.s.Safe() {
		return false
	}
	for slot, s := range c.conns {
		if s == nil {
			continue
		}
		if s.relayed && s == c.stepped && s.stepper == c {
			return false // what its sequences gave would be lost
		}
		if s.broken || s.cancels > 0 || len(s.out) > 0 || len(s.unread) > 0 || s.relayed && c.s.Keeps(session.Slot(slot)) {
			return false
		}
	}
	return true
}

// sendAway offers sessions that leave to a listener, some at a time. It reports whether
// any has left the loop.
func (e *Engine) sendAway() (any bool) {
	if len(e.leavers) == 0 || len(e.departing) >= departuresAtOnce {
		return false
	}
	way := e.opts.Way()
	if way == nil {
		return false // looked at again every second, and when a listener comes
	}
	leavers := e.leavers
	e.leavers = nil
	left := leavers[:0]
	for _, c := range leavers {
		hurries := c.hurries()
		switch {
		case len(e.departing) >= departuresAtOnce, hurries && e.hurrying >= hurriesAtOnce:
			left = append(left, c)
		case c.leaves && c.movable():
			c.queued = false
			e.depart(c, way, hurries)
			any = true
		default:
			c.queued = false
		}
	}
	clear(leavers[len(left):])
	e.leavers = append(left, e.leavers...)
	return any
}

// WayOut says that there may be a listener now that takes sessions; from any goroutine.
func (e *Engine) WayOut() {
	e.Post(e.runReady)
}

// depart takes the session out of the loop and offers it.
func (e *Engine) depart(c *client, way *intake.Link, hurries bool) {
	var kept []*server
	for slot, s := range c.conns {
		if s != nil && c.s.Keeps(session.Slot(slot)) {
			kept = append(kept, s)
		}
	}
	waited := time.Duration(0)
	if c.s.Phase() == session.Queued {
		waited = e.now.Sub(c.wait.since)
	}
	leaving := c.s.Depart()
	c.perform()
	rec := *c.s.Record()
	rec.Live, rec.Unread = leaving.Live, append(leaving.Unread, c.unread...)
	d := &departure{e: e, rec: &rec, fds: []int{c.fd}, began: e.now, leaves: c.leaves, hurries: hurries}
	if l := rec.Live; l != nil {
		l.Canceled, l.Leaving = len(c.early) > 0, c.ends
		l.Greeting = e.greetings[c.login]
		l.WaitedMicros = waited.Microseconds()
		l.Fence.Backend, l.Fence.Writer = e.nameOfServer(leaving.Writer), e.incarnation(leaving.Writer)
		if l.Fence.Seen != nil {
			l.Fence.Seen.Backend, l.Fence.Seen.Server = e.nameOfServer(leaving.Home), e.incarnation(leaving.Home)
		}
		for i, s := range kept {
			s.lease(&l.Leases[i])
			l.Leases[i].Stepped = l.Leases[i].Stepped || s.stepper == c
			d.fds = append(d.fds, s.fd)
		}
		for _, s := range e.idleFor(c, hurries, handoff.MaxFDs-1-len(kept)) {
			l.Leases = append(l.Leases, s.idleLease(c))
			d.fds = append(d.fds, s.fd)
			kept = append(kept, s)
		}
	}
	for _, s := range kept {
		s.letLoose()
	}
	d.ends = c.ends && rec.Live == nil
	e.forget(c)
	c.letLoose()
	c.endEarly() // the record says so
	e.departing[rec.Session] = d
	if hurries {
		e.hurrying++
	}
	way.Offer(&rec, d.fds, func(o intake.Outcome) {
		e.Post(func() { e.departed(d, way, o) })
	})
	for _, s := range kept {
		e.refill(s.site)
	}
}

// forget takes a client out of everything that knows it here.
func (e *Engine) forget(c *client) {
	c.uncount()
	e.withdraw(c)
	e.timers.Stop(&c.lastWord)
	e.timers.Stop(&c.knocking)
	e.timers.Stop(&c.idleDue)
	e.timers.Stop(&c.again)
	e.timers.Stop(&c.insists)
	rec := c.s.Record()
	delete(e.clients, rec.Session)
	if e.byPID[rec.Cancel.PID] == c {
		delete(e.byPID, rec.Cancel.PID)
	}
}

// departed ends a departure.
func (e *Engine) departed(d *departure, way *intake.Link, o intake.Outcome) {
	if e.departing[d.rec.Session] != d {
		return // the loop has ended meanwhile
	}
	delete(e.departing, d.rec.Session)
	if d.hurries && o == intake.Taken && way.Tells() {
		if before := e.awaited[d.rec.Session]; before != nil { // it has come back since
			e.hasArrived(before)
		}
		e.awaited[d.rec.Session] = d
		e.timers.Set(&d.overdue, e.now.Add(arrivalTimeout), func() { e.hasArrived(d) })
	} else if d.hurries {
		e.hurrying--
	}
	log := e.log.With(obs.KeySession, d.rec.Session)
	switch o {
	case intake.Taken:
		handoff.CloseFDs(d.fds)
		e.metrics.Moved.Inc()
		e.metrics.MoveTime.Observe(e.now.Sub(d.began).Seconds())
		e.opts.Moved(d.rec.Session, way)
		if len(d.requests) > 0 {
			way.Cancel(d.rec.Cancel, func() { d.answer() })
		}
		if d.ends {
			way.Leave(d.rec.Session)
		}
		log.Debug("session has moved")
	case intake.Unknown:
		// Whoever has it goes on with it. If that is nobody, its client sees its connection
		// end, and its servers theirs.
		handoff.CloseFDs(d.fds)
		e.metrics.MoveFailures.Inc()
		e.opts.Moved(d.rec.Session, nil)
		d.answer()
		log.Error("it is not known whether the session was taken")
	case intake.Kept, intake.Unsendable:
		e.metrics.MoveFailures.Inc()
		e.comeBack(d, o == intake.Unsendable)
	}
	e.runReady()
	e.endIfEmpty()
}

// Arrived notes that sessions are not on their way any more; from any goroutine.
func (e *Engine) Arrived(sessions []string) {
	e.Post(func() {
		for _, id := range sessions {
			if d := e.awaited[id]; d != nil {
				e.hasArrived(d)
			}
		}
		e.runReady()
	})
}

// hasArrived lets another session go whose client will wait for it.
func (e *Engine) hasArrived(d *departure) {
	e.timers.Stop(&d.overdue)
	delete(e.awaited, d.rec.Session)
	e.hurrying--
}

// comeBack has a session that nobody took go on here.
func (e *Engine) comeBack(d *departure, stays bool) {
	e.commence(&arrival{rec: d.rec, fds: d.fds, requests: d.requests, ends: d.ends, back: true})
	c := e.clients[d.rec.Session]
	switch {
	case c == nil:
		return
	case e.overdue:
		c.s.Kill()
		c.perform()
		return
	}
	c.stays = stays
	if !stays && d.leaves && e.stopping {
		e.timers.Set(&c.again, e.now.Add(moveAgainAfter), func() {
			c.leaves = true
			e.wouldLeave(c)
			e.runReady()
		})
	}
}

// moveAgainAfter is when a session is offered again that nobody took.
const moveAgainAfter = 100 * time.Millisecond

const (
	// shedAtOnce is how many sessions are given away at a time to a router that has few,
	// and shedEvery the time between: it has other things to do. Of those that are at work it
	// is one: each may have to wait there until a connection is made.
	shedAtOnce = 25
	shedEvery  = 50 * time.Millisecond
	// shedFor is for how long sessions are looked for that rest.
	shedFor = 10 * time.Second
)

// Shed gives that many of the sessions away that have nothing to do, first those that have
// had nothing for a while; from any goroutine.
func (e *Engine) Shed(n int) {
	e.Post(func() {
		e.shed, e.shedUntil = max(0, n), e.now.Add(shedFor)
		if !e.shedding.Active() {
			e.shedSome()
		}
		e.runReady()
	})
}

func (e *Engine) shedSome() {
	given := 0
	var working *client
	for _, c := range e.clients {
		switch {
		case given == min(e.shed, shedAtOnce):
		case !c.resting() || c.leaves:
		case c.working():
			working = c
		default:
			e.dismiss(c)
			given++
		}
	}
	if given == 0 && working != nil && e.shed > 0 {
		e.dismiss(working)
		given++
	}
	e.shed -= given
	switch {
	case e.stopping || e.now.After(e.shedUntil):
		e.shed = 0
	case e.shed > 0:
		e.timers.Set(&e.shedding, e.now.Add(shedEvery), e.shedSome)
	}
}

// resting reports whether the session has nothing to do and holds nothing.
func (c *client) resting() bool {
	return c.s.Phase() == session.Idle && c.conns == [2]*server{} && len(c.unread) == 0 && c.stepped == nil
}

// abandon closes what is in flight when the loop ends, for this process alone: it may
// have been taken.
func (d *departure) abandon() {
	handoff.CloseFDs(d.fds)
	d.answer()
}

// answer ends the cancel requests for the session.
func (d *departure) answer() {
	for _, over := range d.requests {
		over(true)
	}
	d.requests = nil
}
