package engine

import (
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// acquire gets a connection for what the session asks.
func (e *Engine) acquire(c *client, r route.Request) {
	if r.Again {
		e.metrics.failovers.Inc()
	}
	if r.Read && r.Fence.Timeline != e.timeline() {
		c.follow()
		r.Fence = c.s.Fence().Position()
	}
	e.complete(&r)
	c.wait.request = r
	c.cross.over, c.wait.chance = fence.Server{}, untried
	c.reads = c.reads || r.Read && (r.Strict || r.Bound > 0)
	if r.Reason == route.ReasonFenceFallback {
		e.metrics.unsettled.Inc()
	}
	if !c.wait.fenced {
		c.wait.since = e.now.Add(-c.wait.before)
	}
	c.wait.fenced, c.wait.before = false, 0
	e.lend(c)
}

// complete adds to what a session asks what there is to know beside it.
func (e *Engine) complete(r *route.Request) {
	e.turn++
	r.Turn = e.turn
	r.Policy, r.MaxLag = e.policy, e.cfg.Routing.MaxLag.D()
	r.Now = e.millis()
	r.AllToPrimary = e.cfg.Routing.AllToPrimary
	if (r.Mode.Remembers() || r.ReadOnly) && r.Fence.IsZero() {
		// What is seen must be known to be of the primary's history: the session, or the
		// transaction, may go on there.
		r.Fence = lsn.Position{Timeline: e.timeline(), LSN: 1}
	}
	if r.Mode == fence.Bounded {
		r.Bound = max(r.Bound, 1) // no bound: nothing is fresh enough
	}
	if r.Bound > 0 {
		r.AsOf = max(e.clock.Now()-r.Bound, 1)
	}
}

// millis is the time for knowledge that fades.
func (e *Engine) millis() uint32 { return uint32(e.now.Sub(e.began).Milliseconds()) }

// lend lends a connection now, or queues the session for one.
func (e *Engine) lend(c *client) {
	r := &c.wait.request
	table := e.tracker.Table()
	if e.strays(c, r) {
		e.strand(c)
		return
	}
	if s := e.kept(c, r); s != nil {
		e.hand(c, s, e.reasonFor(s, r))
		return
	}
	choice := route.Pick(table, r)
	for r.Read && choice.Backend != route.None && choice.Backend != table.Primary && e.siteOf(choice.Backend, c.login).refuses(c.login.Startup) {
		r.Tried = r.Tried.With(choice.Backend)
		choice = route.Pick(table, r)
	}
	if choice.Reason == route.ReasonFenceFallback {
		e.want(r.Fence)
		if e.awaitReplica(c) {
			return
		}
	}
	if lost, ok := e.withoutPrimary(r, choice); ok {
		choice = lost
	}
	if choice.Backend == route.None || choice.Backend == table.Primary && e.superseded(c) {
		e.strand(c)
		return
	}
	slot := slotOf(table, choice.Backend)
	if old := c.conns[slot]; old != nil {
		if slot == session.PrimarySlot && e.tracker.Run(old.site.key.Backend) == old.Run && old.site.key.Backend == choice.Backend {
			e.hand(c, old, choice.Reason)
			return
		}
		e.release(c, slot, session.Broken) // of a server that is no longer what it was
	}
	p := e.siteOf(choice.Backend, c.login)
	for !lostOn(r, choice.Backend) {
		s, ok := p.take(c)
		if !ok {
			break
		}
		if s.stepper != nil && s.stepper != c {
			e.queue(c, p, false) // for this one
			s.reset()
			return
		}
		if s.Run == e.tracker.Run(choice.Backend) {
			e.hand(c, s, choice.Reason)
			return
		}
		p.discard(s)
	}
	e.queue(c, p, true)
}

// lostOn reports whether the read is one that this server has lost already. It waits
// for a connection that is begun now: those that are there, idle or lent, may be about
// to die as the last did, and it is given to no server three times.
func lostOn(r *route.Request, backend int) bool { return r.Again && r.Tried.Has(backend) }

// take gives the session the connection on which it has moved a sequence, so that it
// can ask for its value, or one that suits.
func (p *site) take(c *client) (*server, bool) {
	if s := c.stepped; s != nil && s.stepper == c && p.Claim(s) {
		return s, true
	}
	return p.Take(c.login.Startup, c.s.Settings())
}

// kept gives the connection that the session holds already, if it serves.
func (e *Engine) kept(c *client, r *route.Request) *server {
	if !r.Read {
		return e.onPrimary(c)
	}
	s := c.conns[session.ReplicaSlot]
	if s == nil {
		return nil
	}
	b := s.site.key.Backend
	if s.Run == e.tracker.Run(b) && route.Eligible(e.tracker.Table(), r, b) {
		return s
	}
	if t := e.tracker.Table(); !r.ReadOnly && (b == t.Primary || t.Backends[b].Role == route.RolePrimary) {
		s.broken = true // it was promoted, and waiting for it to catch up is in vain
		return nil
	}
	if r.AllToPrimary || r.Tried.Has(b) || !e.tracker.Table().Backends[b].Healthy {
		return nil
	}
	// A session keeps its replica: while that one is behind, it reads from the
	// primary.
	e.want(r.Fence)
	e.metrics.kept.Inc()
	*r = route.Request{Reason: route.ReasonFenceFallback, Mode: r.Mode, Strict: r.Strict, Fence: r.Fence, Tried: r.Tried, Again: r.Again, Turn: r.Turn}
	return e.onPrimary(c)
}

// onPrimary gives the connection to the primary that the session holds, if what that is to
// is the primary still, as far as is known here.
func (e *Engine) onPrimary(c *client) *server {
	s := c.conns[session.PrimarySlot]
	if s == nil || s.site.key.Backend != e.tracker.Table().Primary || e.superseded(c) {
		return nil
	}
	return s
}

// strays reports whether the session is bound to a connection that is none to the primary,
// as far as is known here: nothing new is begun on it until there is certainty.
func (e *Engine) strays(c *client, r *route.Request) bool {
	bound := r.Reason == route.ReasonPinned || r.Reason == route.ReasonExtended
	return bound && c.conns[session.PrimarySlot] != nil && e.onPrimary(c) == nil
}

// superseded reports whether the session has been on a timeline that the primary which is
// known here has not reached: another server has been promoted, of which there is no news
// yet, or none at all since this router was started. What the router has read from that primary
// itself is such news.
func (e *Engine) superseded(c *client) bool {
	been := max(c.s.Fence().Position().Timeline, c.newest)
	return been > e.timeline() && been > e.probe.seen()
}

func (e *Engine) reasonFor(s *server, r *route.Request) route.Reason {
	if r.Read && s.slot == session.ReplicaSlot {
		return r.OnReplica()
	}
	return r.Reason
}

func slotOf(t *route.Table, backend int) session.Slot {
	if backend == t.Primary {
		return session.PrimarySlot
	}
	return session.ReplicaSlot
}

// hand lends the connection.
func (e *Engine) hand(c *client, s *server, why route.Reason) {
	e.unqueue(c)
	if e.mustCross(c, s) {
		if s.owner != c {
			s.site.giveBack(s) // it is asked for again
		}
		e.barrier.join(c)
		return
	}
	b := s.site.key.Backend
	table := e.tracker.Table()
	slot := slotOf(table, b)
	if s.owner == c {
		slot = s.slot
	} else {
		table.Backends[b].Held++
	}
	if slot == session.PrimarySlot && c.wait.request.Mode.Fenced() && c.s.Parted(fence.Server{Backend: b, Run: s.Run}, e.timeline()) {
		c.maybeLost()
	}
	s.owner, s.slot, s.served = c, slot, true
	s.soiled, c.aged = s.soiled || c.aged, false
	s.site.used, s.site.startup = e.now, s.Startup
	c.conns[slot] = s
	s.reading(true)
	role := table.Backends[b].Role
	if slot == session.PrimarySlot {
		role = route.RolePrimary
	}
	if why != route.ReasonLogin {
		c.count(b, role)
		e.metrics.decision(e.servers[b], role, why)
	} else {
		c.learn(s.params)
	}
	c.s.Granted(&session.Grant{
		Slot: slot, Backend: b, Server: fence.Server{Backend: b, Run: s.Run},
		Name: e.servers[b].name, Role: role, Reason: why,
		Replayed: table.Backends[b].Replayed, AsOf: table.Backends[b].AsOf, Waited: e.now.Sub(c.wait.since), Parameters: s.params,
		Statements: &s.statements, Settings: &s.Settings, Reported: &s.reported,
	})
}

// release takes a connection back from a session.
func (e *Engine) release(c *client, slot session.Slot, how session.Condition) {
	s := c.conns[slot]
	if s == nil {
		return
	}
	c.conns[slot] = nil
	s.owner = nil
	e.tracker.Table().Backends[s.site.key.Backend].Held--
	if c.on == s.site.key.Backend {
		c.uncount()
	}
	if how == session.Broken || how == session.Open && s.soiled || s.broken || s.excess || len(s.out) > 0 || len(s.unread) > 0 {
		s.cut = true
		s.site.discard(s)
		return
	}
	s.reading(true) // its client may have been slow to take what it sent
	s.used, s.opened = how == session.Used, how == session.Open
	if how == session.Stepped {
		s.steppedBy(c)
	}
	if s.cancels > 0 {
		s.parked = true // until the last cancel request is over
		return
	}
	s.comeBack()
}
