package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// barrier lets uses of the primary pass once that shows all that replicas have shown
// (fence.Crossing). One round serves everybody who joined before it: the primary is
// asked what is in progress. Replicas are asked about what that leaves in doubt, and
// nobody but those in doubt waits for them.
type barrier struct {
	e     *Engine
	group fence.Group[use]
	lines map[int]*line
	pause poll.Timer

	// asked is the line to the primary while it is asked, over the run of it that has
	// answered last.
	asked *line
	over  fence.Server
	// doubtful are the uses that a round leaves in doubt.
	doubtful []use
	// gone is what servers may have shown that are not configured any more.
	gone fence.Former
	// prepared are those of the transactions in progress that are prepared.
	prepared []uint64
	// wanted is when replicas were last asked how far they have replayed.
	wanted time.Time
}

// use is one use of the primary by a session: what is known of an earlier one says
// nothing of it.
type use struct {
	c    *client
	turn uint64
}

// waits reports whether the session still waits for that use.
func (u use) waits() bool { return !u.c.closed && u.c.cross.active && u.c.cross.turn == u.turn }

// crossing is a session's use of the primary behind the barrier.
type crossing struct {
	fence.Crossing
	place  fence.Place
	active bool
	turn   uint64
	since  time.Time
	// by is the replica that the session has read; everyone says that all count, in all
	// their runs.
	by       fence.Server
	everyone bool
	// over is the run of the primary at which it has passed.
	over fence.Server
}

// betweenRounds is the pause before those who are still in doubt are looked at again.
const betweenRounds = time.Millisecond

// stubborn is how long somebody is in doubt before replicas are asked how far they have
// replayed, as often as that: mostly what is in doubt has ended by then.
const stubborn = 10 * time.Millisecond

// mustCross reports whether the session may use the connection only behind the barrier.
func (e *Engine) mustCross(c *client, s *server) bool {
	r := &c.wait.request
	b := s.site.key.Backend
	if !r.Mode.Remembers() || b != e.tracker.Table().Primary || c.cross.over == (fence.Server{Backend: b, Run: s.Run}) {
		return false
	}
	if r.Reason == route.ReasonLogin || r.Reason == route.ReasonReplication {
		return false
	}
	if _, aside := c.s.Aside(); !aside && r.Mode != fence.Linear {
		return false
	}
	return e.barrier.from(c, r.Mode) != 0 || c.cross.everyone && !e.barrier.gone.None()
}

// from gives the replicas that may have shown what the session has to see, and notes
// them. In the mode linear what another session has seen counts as well.
func (b *barrier) from(c *client, mode fence.Mode) fence.Set {
	by, aside := c.s.Aside()
	c.cross.by, c.cross.everyone = by, mode == fence.Linear || aside && by.Backend == route.None
	if !c.cross.everyone {
		return fence.Set(0).With(by.Backend)
	}
	var all fence.Set
	for i := range b.e.servers {
		if i != b.e.tracker.Table().Primary && !b.e.tracker.Free(i) {
			all = all.With(i)
		}
	}
	return all
}

// join has the session wait for the barrier.
func (b *barrier) join(c *client) {
	e := b.e
	c.cross.Begin(b.from(c, c.wait.request.Mode))
	c.cross.turn++
	c.cross.active, c.cross.since = true, e.now
	b.limit(c)
	for i := range e.servers {
		if c.cross.From().Has(i) {
			b.lineTo(i).usable() // made before it is needed: see line.before
		}
	}
	b.group.Join(use{c, c.cross.turn}, &c.cross.place)
	b.start()
}

func (b *barrier) limit(c *client) {
	b.e.timers.Set(&c.wait.due, b.e.now.Add(b.e.cfg.Fencing.WaitPrimary.D()), func() { b.late(c) })
}

// late ends a session's wait, unless it is for a primary to appear.
func (b *barrier) late(c *client) {
	e := b.e
	if e.primaryAway() && e.now.Sub(c.cross.since) < e.cfg.Failover.Wait.D() {
		b.limit(c)
		return
	}
	e.metrics.BarrierTimeouts.Inc()
	hint := "See to synchronous standbys that hang and to replicas that are down. fencing.wait_primary sets this limit."
	if b.awaitsPrepared(c) {
		hint = "It is a prepared transaction: see pg_prepared_xacts on the primary, and COMMIT PREPARED or ROLLBACK PREPARED what has been forgotten. " + hint
	}
	e.refuse(c, &session.Problem{
		Code:    "57P03",
		Message: fmt.Sprintf("the primary does not show within %s what a replica may have shown", e.cfg.Fencing.WaitPrimary),
		Detail:  "A transaction is visible on a replica and is not yet on the primary, or that cannot be ruled out because one of them does not answer.",
		Hint:    hint,
	})
}

// awaitsPrepared reports whether what the session is in doubt about is prepared.
func (b *barrier) awaitsPrepared(c *client) (prepared bool) {
	c.cross.Doubts(func(x uint64) { prepared = prepared || slices.Contains(b.prepared, x) })
	return prepared
}

// start begins a round if one is wanted and none is under way.
func (b *barrier) start() {
	if b.asked != nil || b.pause.Active() || b.group.Waiting() == 0 {
		return
	}
	primary := b.e.tracker.Table().Primary
	if primary == route.None {
		return
	}
	l := b.lineTo(primary)
	if !l.usable() {
		return
	}
	b.group.Start()
	b.gone.Asked()
	for _, r := range b.lines {
		if r.open {
			r.former.Asked()
		}
	}
	b.asked = l
	l.ask(runOpen)
}

func (b *barrier) lineTo(backend int) *line {
	l := b.lines[backend]
	if l == nil {
		l = &line{b: b, backend: backend}
		l.e = b.e
		b.lines[backend] = l
	}
	return l
}

// answered takes an answer, or that there is none.
func (b *barrier) answered(l *line, row [][]byte, err error) {
	if l != b.asked {
		b.told(l, row, err)
		b.start() // who is asked may be the primary by now, which owed this answer until now
		return
	}
	b.asked = nil
	b.opened(l, row, err)
	b.start()
}

// opened takes the list of the transactions in progress.
func (b *barrier) opened(l *line, row [][]byte, err error) {
	var now inProgress
	if err == nil {
		now, err = readOpen(row)
		if err != nil {
			l.fail(err)
		}
	}
	if err != nil || l.server.Backend != b.e.tracker.Table().Primary || l.server.Run != b.e.tracker.Run(l.backend) {
		b.group.Fail()
		return
	}
	b.e.metrics.BarrierRounds.Inc()
	b.over, b.prepared = l.server, now.prepared
	now.at.LSN = b.e.tracker.Geometry(l.backend).RoundToPage(now.at.LSN)
	b.gone.List(now.xids, now.at)
	for _, r := range b.lines {
		r.former.List(now.xids, now.at)
	}
	for _, u := range b.group.Done() {
		if !u.waits() {
			continue
		}
		x := &u.c.cross
		x.Open(now.xids, now.at)
		if x.From() == 0 {
			x.Only(b.gone.May)
		}
		if x.Passed() {
			b.pass(u.c)
			continue
		}
		b.doubtful = append(b.doubtful, u)
	}
	if len(b.doubtful) > 0 {
		b.askReplicas()
		b.want(now.at)
		b.again()
	}
}

// askReplicas asks about what is in doubt: those that may have shown it, and the others, one of
// which can tell that it has not been written, if that takes long. Who may have shown it may be gone.
func (b *barrier) askReplicas() {
	var from fence.Set
	var xids []uint64
	for _, u := range b.doubtful {
		from |= u.c.cross.From()
		u.c.cross.Doubts(func(x uint64) {
			if !slices.Contains(xids, x) {
				xids = append(xids, x)
			}
		})
	}
	lasts := b.lasts()
	for i := range b.e.servers {
		if b.e.tracker.Free(i) || !from.Has(i) && (!lasts || b.e.tracker.Table().Backends[i].Role != route.RoleReplica) {
			continue
		}
		// One that still owes an answer is asked in a later round.
		if l := b.lineTo(i); l.usable() {
			l.about, l.of, l.replayed = xids, append(l.of[:0], b.doubtful...), b.replayed(l)
			l.ask(askCommitted(xids))
		}
	}
}

// replayed is how far the replica has replayed at least, which holds for what it is
// asked from now on.
func (b *barrier) replayed(l *line) lsn.Position {
	if s := &b.e.tracker.Table().Backends[l.backend]; s.Role == route.RoleReplica && s.Run == l.server.Run && !s.Diverged {
		return s.Replayed
	}
	return lsn.Position{}
}

// want has replicas asked how far they are if somebody has been in doubt for long.
func (b *barrier) want(at lsn.Position) {
	e := b.e
	if e.now.Sub(b.wanted) >= stubborn && b.lasts() {
		b.wanted = e.now
		e.want(at)
	}
}

// lasts reports whether somebody has been in doubt for long.
func (b *barrier) lasts() bool {
	return slices.ContainsFunc(b.doubtful, func(u use) bool { return b.e.now.Sub(u.c.cross.since) >= stubborn })
}

// again has those in doubt join the next round.
func (b *barrier) again() {
	for _, u := range b.doubtful {
		b.group.Join(u, &u.c.cross.place)
	}
	clear(b.doubtful)
	b.doubtful = b.doubtful[:0]
	b.e.timers.Set(&b.pause, b.e.now.Add(betweenRounds), b.start)
}

// told takes from a replica which of the transactions it has committed.
func (b *barrier) told(l *line, row [][]byte, err error) {
	if err != nil {
		return
	}
	committed, err := readCommitted(row)
	if err != nil {
		l.fail(err)
		return
	}
	unseen := func(xid uint64) bool { return slices.Contains(l.about, xid) && !slices.Contains(committed, xid) }
	b.gone.Unwritten(l.replayed, unseen)
	for _, r := range b.lines {
		r.former.Unwritten(l.replayed, unseen)
	}
	for _, u := range l.of {
		x := &u.c.cross
		if !u.waits() {
			continue
		}
		x.Unwritten(l.replayed, unseen)
		if x.everyone || l.server == x.by {
			x.Unseen(l.backend, func(xid uint64) bool {
				return unseen(xid) && (!x.everyone || !l.former.May(xid) && !b.gone.May(xid))
			})
		}
		if x.Passed() {
			b.pass(u.c)
		}
	}
}

// pass lets the session go on.
func (b *barrier) pass(c *client) {
	e := b.e
	c.cross.active, c.cross.over = false, b.over
	e.timers.Stop(&c.wait.due)
	e.metrics.BarrierTime.Observe(time.Since(c.cross.since).Seconds())
	e.ready = append(e.ready, grant{c: c})
}

func (b *barrier) close() {
	for _, l := range b.lines {
		l.hangup()
	}
}

// leave forgets the line to a server that is given up. What it has shown stays in doubt
// until it has ended.
func (b *barrier) leave(backend int) {
	b.gone.Begin()
	l := b.lines[backend]
	if l == nil {
		return
	}
	delete(b.lines, backend)
	l.hangup()
	b.e.timers.Stop(&l.pause)
	b.e.timers.Stop(&l.due)
	if l == b.asked { // of a former primary
		b.asked = nil
		b.group.Fail()
	}
}
