package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/consistency"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

const (
	sessions = 4
	// events is how many a course has at least.
	events = 200
)

// world is one course of events.
type world struct {
	r       *rand.Rand
	servers []*server
	router  *router
	logs    []*consistency.Log
	losses  []consistency.Loss
	// news has what each of two lagpollers has published and what has not arrived.
	news     [2]lagpoller
	clock    int64
	numbers  int
	timeline lsn.Timeline
	opened   int
	counts   counts
	trace    func(format string, args ...any)
	// rough courses have commits that wait long for a synchronous standby, and replicas
	// that fail meanwhile or stand still.
	rough bool
	// leaves says that replicas leave the configuration in it, too.
	leaves bool
}

// counts say what a course was made of.
type counts struct {
	operations, onReplicas, losses, promotions, restarts int
}

func (c *counts) add(o counts) {
	c.operations += o.operations
	c.onReplicas += o.onReplicas
	c.losses += o.losses
	c.promotions += o.promotions
	c.restarts += o.restarts
}

func (c *counts) operation(op *consistency.Op, r *router) {
	c.operations++
	if op.Kind == consistency.Read && !r.w.servers[op.Server].primary {
		c.onReplicas++
	}
}

// newWorld has sessions of a mode.
func newWorld(seed uint64, mode string) *world {
	w := &world{r: rand.New(rand.NewPCG(seed, 3)), timeline: 1, rough: seed%3 == 0, leaves: seed%2 == 0, trace: func(string, ...any) {}}
	for i := range servers {
		s := &server{w: w, id: i, name: fmt.Sprint("s", i), up: true, primary: i == 0}
		s.inc.SystemID = 7
		s.newRun(false)
		w.servers = append(w.servers, s)
	}
	m, ok := fence.ParseMode(mode)
	if !ok {
		broken("there is no mode %q", mode)
	}
	w.router = newRouter(w, m)
	for i := range w.news {
		w.news[i].w, w.news[i].name = w, fmt.Sprint("l", i)
		for s := range w.servers {
			w.news[i].observe(w.servers[s])
		}
		w.news[i].deliverAll()
	}
	for range sessions {
		w.open()
	}
	return w
}

func (w *world) open() {
	c := newClient(w.router, w.opened)
	w.opened++
	w.router.clients = append(w.router.clients, c)
	w.logs = append(w.logs, c.log)
}

// now is the clock of the history; it is different at every reading.
func (w *world) now() int64 { w.clock++; return w.clock }

func (w *world) time() time.Time {
	return time.Unix(1000, 0).Add(time.Duration(w.clock) * time.Millisecond)
}

func (w *world) number() int { w.numbers++; return w.numbers }

func (w *world) startTime() int64 { return 1 + w.r.Int64N(1<<40) }

func (w *world) nextTimeline() lsn.Timeline { w.timeline++; return w.timeline }

// lose notes that records are gone for good.
func (w *world) lose(records []record) {
	if slices.ContainsFunc(records, func(r record) bool { return r.commit }) {
		now := w.now()
		w.losses = append(w.losses, consistency.Loss{From: now, Until: now})
		w.counts.losses++
	}
}

func (w *world) primary() *server {
	for _, s := range w.servers {
		if s.primary && s.up {
			return s
		}
	}
	return nil
}

// happening is something that can happen next.
type happening struct {
	weight int
	name   string
	do     func()
}

// possible lists it all.
func (w *world) possible(list []happening) []happening {
	add := func(weight int, name string, do func()) { list = append(list, happening{weight, name, do}) }
	w.ofClients(add)
	w.ofServers(add)
	w.router.ofConfiguration(add)
	w.router.barrier.possible(add)
	w.router.ofReplays(add)
	p := &w.router.probe
	switch {
	case p.connects():
		add(10, "probe connects", p.connect)
	case p.open != nil && p.open.dead && len(p.open.out) == 0:
		add(6, "probe is lost", func() { p.fail() })
	case p.asked && !p.answered:
		add(10, "probe is read", p.read)
	case p.answered:
		add(10, "probe arrives", p.settle)
	}
	for i := range w.news {
		n := &w.news[i]
		s := w.servers[w.r.IntN(servers)]
		add(4, "poll", func() { n.observe(s) })
		if len(n.sent) > 0 {
			add(8, "news", n.deliver)
		}
	}
	add(1, "tick", func() { w.clock += 20; w.router.tracker.Expire(w.time()); w.router.check() })
	return list
}

func (w *world) ofClients(add func(int, string, func())) {
	for i, c := range w.router.clients {
		if c.closed {
			add(4, "client comes back", func() {
				w.router.clients = slices.Delete(w.router.clients, i, i+1)
				w.open()
			})
			continue
		}
		if !c.busy && c.s.Phase() == session.Idle {
			add(10, "operation", c.begin)
		}
		if c.awaiting {
			add(2, "fence wait is over", func() { c.step(c.fenceReady) })
		}
		if c.crosses {
			add(1, "barrier takes too long", func() { w.router.barrier.late(c) })
		} else if w.router.connects(c) {
			add(8, "connection", func() { c.step(func() { w.router.connect(c) }) })
		} else if c.asks {
			add(1, "no connection in time", func() { c.step(func() { w.router.refuse(c) }) })
		}
		for slot := range session.Slot(2) {
			with := c.conns[slot]
			switch {
			case with == nil:
			case len(with.out) > 0:
				n := len(with.out)
				if w.r.IntN(4) == 0 {
					n = 1 + w.r.IntN(n)
				}
				add(12, "answer", func() { c.arrives(slot, n) })
			case with.dead:
				add(6, "connection lost", func() { c.lost(slot) })
			}
		}
	}
}

func (w *world) ofServers(add func(int, string, func())) {
	p := w.primary()
	for _, s := range w.servers {
		for _, c := range s.conns {
			if c.runs() {
				add(12, "backend", c.step)
			}
		}
		switch {
		case !s.up && s.primary:
			add(2, "primary starts", func() { s.start(false); w.counts.restarts++ })
			if w.primary() == nil {
				w.promotions(s, add)
			}
		case !s.up:
			add(3, "replica starts", func() { s.start(false); w.counts.restarts++ })
		case s.primary:
			if s.flushed < len(s.log) {
				add(8, "flush", func() { s.flush(s.flushed + 1 + w.r.IntN(len(s.log)-s.flushed)) })
			}
			if s.acknowledges() {
				weight := 12
				if s.pending[0].slow {
					weight = 1
					if w.rough && w.r.IntN(4) > 0 {
						weight = 0
					}
				}
				add(weight, "acknowledge", s.acknowledge)
			}
			add(1, "noise", func() {
				for range 1 + w.r.IntN(8) {
					s.write(record{})
				}
			})
			w.fault(add, "primary stops", s.stop)
			w.fault(add, "primary crashes", func() { s.stop(); s.start(true); w.counts.restarts++ })
		default:
			if s.receives(p) {
				add(8, "receive", func() { s.receive(p) })
			}
			switch {
			case s.paused:
				add(1, "replay resumes", func() { s.paused = false })
			default:
				w.fault(add, "replay pauses", func() { s.paused = true })
			}
			if s.replayed < len(s.log) && !s.paused {
				add(8, "replay", s.replay)
			}
			add(1, "restartpoint", func() { s.restart = w.r.IntN(s.replayed + 1) })
			crash := func() { s.stop(); s.start(true); w.counts.restarts++ }
			w.fault(add, "replica stops", s.stop)
			w.fault(add, "replica crashes", crash)
			if w.rough && p != nil && len(p.pending) > 0 && p.pending[0].slow {
				if w.leaves {
					add(6, "replica leaves the configuration", func() { w.router.leave(s.id) })
				} else {
					add(6, "replica crashes", crash)
				}
			}
			if p != nil {
				w.fault(add, "replica is rebuilt", func() { s.rebuild(p) })
			}
			if w.leaves {
				w.fault(add, "replica leaves the configuration", func() { w.router.leave(s.id) })
			}
		}
	}
}

// slow decides whether a commit waits for a synchronous standby.
func (w *world) slow() bool { return w.rough && w.r.IntN(2) == 0 || w.r.IntN(3) == 0 }

// fault adds something rare.
func (w *world) fault(add func(int, string, func()), name string, do func()) {
	if w.r.IntN(8) == 0 {
		add(1, name, do)
	}
}

// promotions are the ways out of the loss of a primary, which comes back as a replica.
func (w *world) promotions(former *server, add func(int, string, func())) {
	for _, s := range w.servers {
		if s == former || !s.up || s.primary {
			continue
		}
		weight := 2
		for _, other := range w.servers {
			if other != former && other.replayed > len(s.log)+2 { // what it has more is lost
				weight = 20
			}
		}
		add(weight, "promotion", func() {
			s.promote(former)
			former.rebuild(s)
			w.counts.promotions++
		})
	}
}

// step lets one thing happen.
func (w *world) step(list []happening) []happening {
	list = w.possible(list[:0])
	total := 0
	for i := range list {
		total += list[i].weight
	}
	n := w.r.IntN(total)
	for i := range list {
		if n -= list[i].weight; n < 0 {
			w.trace("%d: %s", w.clock, list[i].name)
			w.clock++
			list[i].do()
			break
		}
	}
	for _, s := range w.servers {
		s.conns = slices.DeleteFunc(s.conns, func(c *conn) bool { return c.dead && !c.waiting })
	}
	for i := range w.router.idle {
		w.router.idle[i] = slices.DeleteFunc(w.router.idle[i], func(c *conn) bool { return c.dead })
	}
	return list
}

// lagpoller is what one of them knows and has published.
type lagpoller struct {
	w    *world
	name string
	seen [servers]bus.Lag
	told [servers]bool
	// ended is the history of the primary it saw last.
	ended []lsn.Position
	sent  []func()
	// last is the topology it told last.
	last bus.Topology
}

// observe asks a server and publishes what it says.
func (l *lagpoller) observe(s *server) {
	m := &l.seen[s.id]
	m.V, m.Backend, m.Healthy = bus.Version, s.name, s.up
	if s.up {
		m.Incarnation = s.incarnation()
		m.Role, m.ReplayLSN, m.InsertLSN = bus.Replica, s.position().LSN, 0
		if s.primary {
			m.Role, m.ReplayLSN, m.InsertLSN = bus.Primary, 0, s.insertPosition()
			l.ended = s.ended
		}
		l.told[s.id] = true
	}
	if !l.told[s.id] {
		return
	}
	for i := range l.seen { // a replica that has left the primary's history
		x := &l.seen[i]
		for _, e := range l.ended {
			if x.Role == bus.Replica && x.Incarnation.Timeline == e.Timeline && x.ReplayLSN > e.LSN {
				x.Healthy = false
			}
		}
	}
	lag, top := *m, l.topology()
	if top.Generation = l.last.Generation; top.Primary != l.last.Primary || !slices.Equal(top.Members, l.last.Members) {
		top.Generation++
	}
	l.last = top
	l.sent = append(l.sent, func() { l.w.router.topology(&top) }, func() { l.w.router.tracker.Lag(&lag, l.w.time()) })
}

func (l *lagpoller) topology() bus.Topology {
	t := bus.Topology{V: bus.Version, SwitchPoints: l.ended, Publisher: l.name}
	newest := lsn.Timeline(0)
	for i := range l.seen {
		newest = max(newest, l.seen[i].Incarnation.Timeline)
	}
	claims := 0
	for i := range l.seen {
		m := &l.seen[i]
		t.Members = append(t.Members, bus.Member{Backend: m.Backend, Role: m.Role, Healthy: m.Healthy, Incarnation: m.Incarnation})
		if m.Role == bus.Primary && m.Healthy {
			claims++
			if m.Incarnation.Timeline == newest {
				t.Primary = m.Backend
			}
		}
	}
	if claims > 1 {
		t.Primary = ""
	}
	return t
}

// deliver lets the oldest message arrive.
func (l *lagpoller) deliver() {
	m := l.sent[0]
	l.sent = l.sent[1:]
	m()
	l.w.router.heard()
}

func (l *lagpoller) deliverAll() {
	for len(l.sent) > 0 {
		l.deliver()
	}
}
