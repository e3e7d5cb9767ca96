package sim

import (
	"slices"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/topology"
)

// barrier is where uses of the primary wait, with the rules of engine/barrier.go.
type barrier struct {
	r     *router
	group fence.Group[use]
	lines [servers]line
	// asked says that the question to the primary has left; answer, that it has been
	// read, and open is what it said.
	asked, answered bool
	over            fence.Server
	open            []uint64
	at              lsn.Position
	// gone is what servers may have shown that are not configured any more.
	gone fence.Former
}

// use is one use of the primary.
type use struct {
	c    *client
	turn int
}

func (u use) waits() bool { return !u.c.closed && u.c.crosses && u.c.turn == u.turn }

// line is what is known of a replica's run: what was in progress when it was first
// asked may have been shown by the run before. of are the uses that it is being asked
// for, about the transactions about, and replayed is how far it was before it was asked.
type line struct {
	run    int32
	former fence.Former
	asking bool
	about  []uint64
	of     []use
	// replayed is of the run asked.
	replayed lsn.Position
	asked    uint32
}

// mustCross reports whether the client may use the connection only behind the barrier.
func (r *router) mustCross(c *client, with *conn) bool {
	b := with.srv.id
	mode := c.request.Mode
	if !mode.Remembers() || b != r.tracker.Table().Primary || c.over == (fence.Server{Backend: b, Run: with.run}) {
		return false
	}
	_, aside := c.s.Aside()
	return aside || mode == fence.Linear
}

// from gives the replicas that count for the client, and notes them.
func (b *barrier) from(c *client) fence.Set {
	by, _ := c.s.Aside()
	c.by, c.everyone = by, c.request.Mode == fence.Linear
	if !c.everyone {
		return fence.Set(0).With(by.Backend)
	}
	from := fence.Set(0)
	for i := range servers {
		if i != b.r.tracker.Table().Primary && !b.r.tracker.Free(i) {
			from = from.With(i)
			b.lineTo(i)
		}
	}
	return from
}

func (b *barrier) join(c *client) {
	c.crossing.Begin(b.from(c))
	c.turn++
	c.crosses = true
	b.group.Join(use{c, c.turn}, &c.crossPlace)
}

// lineTo gives the line to a server, a new one if it has restarted.
func (b *barrier) lineTo(i int) *line {
	l := &b.lines[i]
	if srv := b.r.w.servers[i]; srv.up && l.run != srv.run {
		*l = line{run: srv.run}
	}
	return l
}

// leave notes that a server is not configured any more.
func (b *barrier) leave(i int) {
	b.gone.Begin()
	b.lines[i] = line{}
}

// possible lists what can happen to the barrier.
func (b *barrier) possible(add func(int, string, func())) {
	switch {
	case b.asked && !b.answered:
		add(10, "barrier is read", b.read)
	case b.answered:
		add(10, "barrier arrives", b.arrive)
	case b.group.Waiting() > 0 && b.r.tracker.Table().Primary != route.None:
		add(10, "barrier is asked", b.start)
	}
	for i := range b.lines {
		if b.lines[i].asking {
			add(10, "replica answers", func() { b.tells(i) })
		}
	}
}

func (b *barrier) start() {
	b.group.Start()
	b.gone.Asked()
	for i := range b.lines {
		if b.lines[i].run != 0 {
			b.lines[i].former.Asked()
		}
	}
	b.asked = true
}

// read is the primary's part.
func (b *barrier) read() {
	p := b.r.tracker.Table().Primary
	if p == route.None || !b.r.w.servers[p].up || !b.r.w.servers[p].primary {
		b.asked = false
		b.group.Fail()
		return
	}
	srv := b.r.w.servers[p]
	b.over = fence.Server{Backend: p, Run: b.r.tracker.Observe(p, srv.incarnation(), topology.Sight{At: b.r.w.time()})}
	b.open = b.open[:0]
	for _, c := range srv.pending {
		b.open = append(b.open, uint64(c.rec.id))
	}
	b.at = srv.position()
	b.answered = true
}

func (b *barrier) arrive() {
	b.asked, b.answered = false, false
	if b.over.Backend != b.r.tracker.Table().Primary || b.over.Run != b.r.tracker.Run(b.over.Backend) {
		b.group.Fail()
		return
	}
	b.gone.List(b.open, b.at)
	for i := range b.lines {
		b.lines[i].former.List(b.open, b.at)
	}
	var doubtful []use
	for _, u := range b.group.Done() {
		if !u.waits() {
			continue
		}
		x := &u.c.crossing
		x.Open(b.open, b.at)
		if x.From() == 0 {
			x.Only(b.gone.May)
		}
		if x.Passed() {
			b.pass(u.c)
			continue
		}
		doubtful = append(doubtful, u)
	}
	for i := range b.lines {
		if l := &b.lines[i]; len(doubtful) > 0 && i != b.over.Backend && !l.asking && !b.r.tracker.Free(i) {
			l.asking, l.about, l.of = true, slices.Clone(b.open), slices.Clone(doubtful)
			l.replayed, l.asked = b.replayed(i), b.r.tracker.Run(i)
		}
	}
	for _, u := range doubtful {
		b.group.Join(u, &u.c.crossPlace)
	}
}

// replayed is how far a replica has replayed at least.
func (b *barrier) replayed(i int) lsn.Position {
	if s := &b.r.tracker.Table().Backends[i]; s.Role == route.RoleReplica && !s.Diverged {
		return s.Replayed
	}
	return lsn.Position{}
}

// tells is the answer of a replica.
func (b *barrier) tells(i int) {
	asked := b.lines[i]
	b.lines[i].asking = false
	srv := b.r.w.servers[i]
	if !srv.up || srv.primary {
		return
	}
	run := b.r.tracker.Observe(i, srv.incarnation(), topology.Sight{At: b.r.w.time()})
	l := b.lineTo(i)
	unseen := func(x uint64) bool {
		shown := slices.ContainsFunc(srv.log[:srv.visible], func(r record) bool { return uint64(r.id) == x })
		return slices.Contains(asked.about, x) && !shown
	}
	replayed := asked.replayed
	if asked.asked != run { // the answer is of another run
		replayed = lsn.Position{}
	}
	b.gone.Unwritten(replayed, unseen)
	for j := range b.lines {
		b.lines[j].former.Unwritten(replayed, unseen)
	}
	for _, u := range asked.of {
		c := u.c
		if !u.waits() {
			continue
		}
		c.crossing.Unwritten(replayed, unseen)
		if by := (fence.Server{Backend: i, Run: run}); c.everyone || c.by == by {
			c.crossing.Unseen(i, func(x uint64) bool { return unseen(x) && (!c.everyone || !l.former.May(x) && !b.gone.May(x)) })
		}
		if c.crossing.Passed() {
			b.pass(c)
		}
	}
}

func (b *barrier) pass(c *client) {
	c.crosses, c.over = false, b.over
	c.step(func() { b.r.lend(c) })
}

// late ends a wait for the barrier.
func (b *barrier) late(c *client) {
	c.crosses = false
	c.step(func() {
		c.asks = false
		c.s.Refuse(&session.Problem{Code: "57P03", Message: "the primary does not show what a replica has shown"})
	})
}
