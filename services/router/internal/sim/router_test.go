package sim

import (
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/breaker"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/topology"
)

// router is the event loop in miniature, with the rules of package engine: which
// connections serve whom, when a decision is looked at again, what a probe settles.
type router struct {
	w        *world
	tracker  *topology.Tracker
	settings session.Settings
	clients  []*client
	idle     [servers][]*conn
	probe    prober
	askers   [servers]asker
	barrier  barrier
	turn     uint32
	parsings session.Parsings
}

func newRouter(w *world, mode fence.Mode) *router {
	var names []string
	for _, s := range w.servers {
		names = append(names, s.name)
	}
	tracker := topology.New(names, topology.Settings{
		StaleAfter: time.Second, Breaker: breaker.Settings{Base: 50 * time.Millisecond, Max: time.Second, Random: w.r.Float64},
	})
	r := &router{w: w, tracker: tracker, settings: session.Settings{
		Values: override.Values{Mode: mode}, MaxText: 1 << 10, MaxStatements: 4, LazyBegin: true, ReadOnlyOnReplicas: true,
	}}
	r.probe.r, r.barrier.r = r, r
	for i := range r.askers {
		r.askers[i].r, r.askers[i].id = r, i
	}
	return r
}

// acquire decides where the request of the client runs, and lends a connection if there
// is one; otherwise one will be made.
func (r *router) acquire(c *client, q route.Request) {
	r.turn++
	q.Turn = r.turn
	if q.Read && q.Fence.Timeline != r.timeline() {
		c.follow()
		q.Fence = c.s.Fence().Position()
	}
	r.complete(&q)
	c.request, c.asks, c.crosses, c.over = q, true, false, fence.Server{}
	r.lend(c)
}

// complete adds to a request what there is to know beside it.
func (r *router) complete(q *route.Request) {
	if (q.Mode.Remembers() || q.ReadOnly) && q.Fence.IsZero() {
		q.Fence = lsn.Position{Timeline: r.timeline(), LSN: 1}
	}
}

func (r *router) lend(c *client) {
	q := &c.request
	table := r.tracker.Table()
	if held := r.held(c, q); held != nil {
		r.hand(c, held, q.Reason)
		return
	}
	choice := route.Pick(table, q)
	c.waits = choice.Backend
	if choice.Backend == route.None {
		return // until there is a primary, or nobody waits any longer
	}
	slot := r.slotOf(choice.Backend)
	if old := c.conns[slot]; old != nil {
		if slot == session.PrimarySlot && r.tracker.Run(choice.Backend) == old.run && old.srv.id == choice.Backend {
			r.hand(c, old, choice.Reason)
			return
		}
		r.release(c, slot, session.Broken)
	}
	for idle := &r.idle[choice.Backend]; len(*idle) > 0; {
		last := (*idle)[len(*idle)-1]
		*idle = (*idle)[:len(*idle)-1]
		if last.run == r.tracker.Run(choice.Backend) {
			r.hand(c, last, choice.Reason)
			return
		}
		last.close()
	}
}

// held gives the connection that the session holds already, if it serves.
func (r *router) held(c *client, q *route.Request) *conn {
	if !q.Read {
		if p := c.conns[session.PrimarySlot]; p != nil && p.srv.id == r.tracker.Table().Primary {
			return p
		}
		return nil
	}
	s := c.conns[session.ReplicaSlot]
	switch {
	case s == nil:
	case s.run == r.tracker.Run(s.srv.id) && route.Eligible(r.tracker.Table(), q, s.srv.id):
		return s
	case !q.Tried.Has(s.srv.id) && r.tracker.Table().Backends[s.srv.id].Healthy:
		*q = route.Request{Reason: route.ReasonFenceFallback, Mode: q.Mode, Strict: q.Strict, Fence: q.Fence, Tried: q.Tried, Turn: q.Turn}
		return c.conns[session.PrimarySlot]
	}
	return nil
}

func (r *router) slotOf(backend int) session.Slot {
	if backend == r.tracker.Table().Primary {
		return session.PrimarySlot
	}
	return session.ReplicaSlot
}

func (r *router) hand(c *client, with *conn, why route.Reason) {
	if r.mustCross(c, with) {
		if with.owner != c {
			r.idle[with.srv.id] = append(r.idle[with.srv.id], with)
		}
		r.barrier.join(c)
		return
	}
	c.asks = false
	b := with.srv.id
	slot := r.slotOf(b)
	if with.owner == c {
		slot = with.slot
	}
	if slot == session.PrimarySlot && c.s.Parted(fence.Server{Backend: b, Run: with.run}, r.timeline()) {
		c.told()
	}
	with.owner, with.slot = c, slot
	c.conns[slot] = with
	c.s.Granted(&session.Grant{
		Slot: slot, Backend: b, Server: fence.Server{Backend: b, Run: with.run}, Name: with.srv.name,
		Role: r.tracker.Table().Backends[b].Role, Reason: why, Replayed: r.tracker.Table().Backends[b].Replayed, Statements: &with.statements,
	})
}

// release takes a connection back.
func (r *router) release(c *client, slot session.Slot, how session.Condition) {
	with := c.conns[slot]
	if with == nil {
		return
	}
	c.conns[slot] = nil
	with.owner = nil
	if how == session.Broken || with.dead || len(with.out) > 0 {
		with.close()
		return
	}
	if how == session.Open {
		if with.status == wire.Idle || len(with.in) > 0 {
			broken("a connection in status %c, with %q to do, is released in a transaction", with.status, with.in)
		}
		with.status, with.writes = wire.Idle, nil // ROLLBACK
		with.statements.Queried()
	}
	if how == session.Clean && (with.status != 'I' || len(with.in) > 0) {
		broken("a connection in status %c, with %q to do, is released as clean", with.status, with.in)
	}
	r.idle[with.srv.id] = append(r.idle[with.srv.id], with)
}

// connects reports whether a connection is being made for the client.
func (r *router) connects(c *client) bool { return c.asks && !c.crosses && c.waits != route.None }

// connect ends the making of a connection for the client, with or without success.
func (r *router) connect(c *client) {
	b := c.waits
	srv := r.w.servers[b]
	if !srv.up {
		r.tracker.Failed(b, r.w.time())
		if b == r.tracker.Table().Primary {
			r.refuse(c)
			return
		}
		c.request.Tried = c.request.Tried.With(b)
		r.lend(c)
		return
	}
	if b == r.tracker.Table().Primary && !srv.primary {
		return // it is a standby now; news of who the primary is will come
	}
	r.tracker.Connected(b, r.w.time())
	made := srv.connect()
	made.run = r.tracker.Observe(b, srv.incarnation(), topology.Sight{At: r.w.time()})
	if made.run == 0 { // of a run that news says has ended
		made.close()
		return
	}
	if r.fits(c, made) {
		r.hand(c, made, r.whyWaited(c, made))
		return
	}
	r.idle[b] = append(r.idle[b], made)
	r.lend(c)
}

// fits looks again at a decision that was made before a wait.
func (r *router) fits(c *client, with *conn) bool {
	b := with.srv.id
	if with.run != r.tracker.Run(b) {
		return false
	}
	return b == r.tracker.Table().Primary || route.Eligible(r.tracker.Table(), &c.request, b)
}

func (r *router) whyWaited(c *client, with *conn) route.Reason {
	q := &c.request
	if with.srv.id != r.tracker.Table().Primary {
		return route.ReasonRead
	}
	if !q.Read {
		return q.Reason
	}
	return route.Pick(r.tracker.Table(), q).Reason
}

func (r *router) refuse(c *client) {
	c.asks = false
	c.s.Refuse(&session.Problem{Code: "57P03", Message: "no server accepts writes"})
}

// timeline is the primary's, as far as it is known.
func (r *router) timeline() lsn.Timeline { return r.tracker.History().Now.Timeline }

// topology takes the news of who the primary is. Connections to a former primary are
// given up, and fences carried over to a new timeline.
func (r *router) topology(m *bus.Topology) {
	was, timeline := r.tracker.Table().Primary, r.timeline()
	if r.tracker.Topology(m, r.w.time()) && r.tracker.Table().Primary != route.None && was != route.None {
		for _, c := range r.idle[was] {
			c.close()
		}
		r.idle[was] = nil
		for _, c := range r.clients {
			for slot, with := range c.conns {
				if with != nil && with.srv.id == was && !c.closed {
					with.close()
					with.out = nil
					c.lost(session.Slot(slot))
				}
			}
		}
	}
	if r.timeline() != timeline {
		for _, c := range r.clients {
			c.follow()
		}
	}
}

// leave takes a server out of use that nobody uses at the moment, if all others are in use.
func (r *router) leave(i int) {
	uses := func(c *client) bool {
		of := func(with *conn) bool { return with != nil && with.srv.id == i }
		return of(c.conns[0]) || of(c.conns[1]) || c.asks && c.waits == i
	}
	if i == r.tracker.Table().Primary || r.left() >= 0 || slices.ContainsFunc(r.clients, uses) || r.probe.open != nil && r.probe.server.Backend == i {
		return
	}
	for _, c := range r.idle[i] {
		c.close()
	}
	r.idle[i] = nil
	r.tracker.Leave(i)
	r.tracker.Release(i)
	r.barrier.leave(i)
	r.askers[i].close()
}

// left gives the server that is not in use, -1 for none.
func (r *router) left() int {
	for i := range servers {
		if r.tracker.Free(i) {
			return i
		}
	}
	return -1
}

// ofConfiguration lists what can happen to the configuration.
func (r *router) ofConfiguration(add func(int, string, func())) {
	if i := r.left(); i >= 0 {
		add(1, "replica is configured again", func() {
			if at, ok := r.tracker.Add(r.w.servers[i].name, r.w.time()); !ok || at != i {
				broken("server %d is taken up as %d", i, at)
			}
		})
	}
}

// check probes servers that have been left alone.
func (r *router) check() {
	due, _ := r.tracker.Probes(r.w.time())
	for _, i := range due {
		if r.w.servers[i].up {
			r.tracker.Connected(i, r.w.time())
		} else {
			r.tracker.Failed(i, r.w.time())
		}
	}
}

// heard lets those go on that the news may help.
func (r *router) heard() {
	for _, c := range slices.Clone(r.clients) {
		if c.asks && !c.crosses {
			c.step(func() { r.lend(c) })
		}
	}
	r.probe.look()
}

// prober is the router's one connection for reading the primary's position, with the
// rules of engine/probe.go.
type prober struct {
	r      *router
	group  fence.Group[settlement]
	open   *conn
	server fence.Server
	// asked says that the question has left; answer, that it has been read.
	asked    bool
	answered bool
	position lsn.Position
}

// settlement is somebody's wait up to a mark.
type settlement struct {
	who interface {
		settled(mark uint64, at fence.Probe)
	}
	mark uint64
}

func (p *prober) join(s settlement, place *fence.Place) {
	p.group.Join(s, place)
	p.look()
}

// look starts a probe if one is wanted and none is under way.
func (p *prober) look() {
	primary := p.r.tracker.Table().Primary
	if p.open != nil && (p.server.Backend != primary || p.server.Run != p.r.tracker.Run(primary)) {
		p.fail()
	}
	if p.group.Waiting() == 0 || p.group.Flying() || p.open == nil {
		return
	}
	p.group.Start()
	p.asked, p.answered = true, false
}

func (p *prober) fail() {
	if p.open != nil {
		p.open.close()
		p.open = nil
	}
	p.asked, p.answered = false, false
	if p.group.Flying() {
		p.group.Fail()
	}
}

// connects reports whether a connection is wanted.
func (p *prober) connects() bool {
	return p.open == nil && p.group.Waiting() > 0 && p.r.tracker.Table().Primary != route.None
}

func (p *prober) connect() {
	b := p.r.tracker.Table().Primary
	srv := p.r.w.servers[b]
	if !srv.up {
		return
	}
	made := srv.connect()
	if made.run = p.r.tracker.Observe(b, srv.incarnation(), topology.Sight{At: p.r.w.time()}); made.run == 0 {
		made.close()
		return
	}
	p.open, p.server = made, fence.Server{Backend: b, Run: made.run}
	p.look()
}

// read is the server's part: it looks at its position.
func (p *prober) read() {
	srv := p.open.srv
	if !srv.primary {
		p.fail() // the functions of a primary are refused during recovery
		return
	}
	p.position = lsn.Position{Timeline: srv.position().Timeline, LSN: srv.insertPosition()}
	p.answered = true
}

// settle is the arrival of the answer.
func (p *prober) settle() {
	p.asked, p.answered = false, false
	at := fence.Probe{Position: p.position, Server: p.server}
	for _, st := range p.group.Done() {
		st.who.settled(st.mark, at)
	}
	p.look()
}
