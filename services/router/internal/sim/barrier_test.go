package sim

import (
	"slices"

	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
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
	// doubtful are those in doubt; ask has the replicas that are still to be asked.
	doubtful []use
	ask      []int
}

// use is one use of the primary.
type use struct {
	c    *client
	turn int
}

func (u use) waits() bool { return !u.c.closed && u.c.crosses && u.c.turn == u.turn }

// line is what is known of a replica's run: what was in progress when it was first
// asked may have been shown by the run before.
type line struct {
	run            int32
	before         []uint64
	known, listing bool
}

// mustCross reports whether the client may use the connection only behind the barrier.
func (r *router) mustCross(c *client, with *conn) bool {
	b := with.srv.id
	if !r.settings.Values.Mode.Remembers() || b != r.tracker.Table().Primary || c.over == (fence.Server{Backend: b, Run: with.run}) {
		return false
	}
	_, aside := c.s.Aside()
	return aside || r.settings.Values.Mode == fence.Linear
}

func (b *barrier) join(c *client) {
	by, _ := c.s.Aside()
	c.by, c.everyone = by, b.r.settings.Values.Mode == fence.Linear
	from := fence.Set(0).With(by.Backend)
	if c.everyone {
		from = 0
		for i := range servers {
			if i != b.r.tracker.Table().Primary {
				from = from.With(i)
				b.lineTo(i)
			}
		}
	}
	c.crossing.Begin(from)
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

// possible lists what can happen to the barrier.
func (b *barrier) possible(add func(int, string, func())) {
	switch {
	case b.asked && !b.answered:
		add(10, "barrier is read", b.read)
	case b.answered:
		add(10, "barrier arrives", b.arrive)
	case len(b.ask) > 0:
		add(10, "replica is asked", b.askOne)
	case len(b.doubtful) > 0:
		add(6, "barrier's round ends", b.endRound)
	case b.group.Waiting() > 0 && b.r.tracker.Table().Primary != route.None:
		add(10, "barrier is asked", b.start)
	}
}

func (b *barrier) start() {
	b.group.Start()
	for i := range b.lines {
		b.lines[i].listing = b.lines[i].run != 0 && !b.lines[i].known
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
	b.over = fence.Server{Backend: p, Run: b.r.tracker.Observe(p, srv.incarnation())}
	b.open = b.open[:0]
	for _, c := range srv.pending {
		b.open = append(b.open, uint64(c.rec.id))
	}
	b.answered = true
}

func (b *barrier) arrive() {
	b.asked, b.answered = false, false
	if b.over.Backend != b.r.tracker.Table().Primary || b.over.Run != b.r.tracker.Run(b.over.Backend) {
		b.group.Fail()
		return
	}
	for i := range b.lines {
		l := &b.lines[i]
		if l.listing {
			l.before, l.known, l.listing = slices.Clone(b.open), true, false
		}
		l.before = slices.DeleteFunc(l.before, func(x uint64) bool { return !slices.Contains(b.open, x) })
	}
	for _, u := range b.group.Done() {
		if !u.waits() {
			continue
		}
		u.c.crossing.Open(b.open)
		if u.c.crossing.Passed() {
			b.pass(u.c)
			continue
		}
		b.doubtful = append(b.doubtful, u)
	}
	for i := range servers {
		if len(b.doubtful) > 0 && i != b.over.Backend {
			b.ask = append(b.ask, i)
		}
	}
}

// askOne is the question to a replica and its answer.
func (b *barrier) askOne() {
	i := b.ask[0]
	b.ask = b.ask[1:]
	srv := b.r.w.servers[i]
	if !srv.up || srv.primary {
		return
	}
	run := b.r.tracker.Observe(i, srv.incarnation())
	l := b.lineTo(i)
	for _, u := range b.doubtful {
		c := u.c
		if !u.waits() || !c.everyone && c.by != (fence.Server{Backend: i, Run: run}) {
			continue
		}
		c.crossing.Unseen(i, func(x uint64) bool {
			shown := slices.ContainsFunc(srv.log[:srv.visible], func(r record) bool { return uint64(r.id) == x })
			return !shown && (!c.everyone || l.known && !slices.Contains(l.before, x))
		})
	}
}

func (b *barrier) endRound() {
	list := slices.Clone(b.doubtful)
	b.doubtful = b.doubtful[:0]
	for _, u := range list {
		switch {
		case !u.waits():
		case u.c.crossing.Passed():
			b.pass(u.c)
		default:
			b.group.Join(u, &u.c.crossPlace)
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
