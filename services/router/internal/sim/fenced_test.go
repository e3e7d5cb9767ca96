package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/consistency"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// fenced is a client of the modes causal and linear that uses fence.State as a session
// is to: a read goes to a server that State is Ready for and that has replayed its
// Position, or to the primary behind the barrier; what has to be covered waits for a
// probe.
type fenced struct {
	r      *router
	linear bool
	state  fence.State
	place  fence.Place
	log    *consistency.Log
	phase  phase
	op     consistency.Op
	conn   *conn
	by     fence.Server
	// saw is what a replica has shown last.
	saw []record
}

type phase uint8

const (
	resting  phase = iota
	choosing       // a server for the operation
	asking         // the server's answer
)

// possible lists what can happen to the client.
func (f *fenced) possible(add func(int, string, func())) {
	switch {
	case f.phase == resting:
		add(10, "operation", f.begin)
	case f.phase == choosing:
		add(8, "choice", f.choose)
		add(1, "given up", f.end)
	case len(f.conn.out) > 0:
		add(12, "answer", f.answered)
	case f.conn.dead:
		add(6, "connection lost", func() {
			if f.op.Kind == consistency.Write {
				f.join() // it may have been committed
			}
			f.end()
		})
	}
}

func (f *fenced) begin() {
	w := f.r.w
	f.op = consistency.Op{Key: int32(w.r.IntN(keys)), Invoke: w.now()}
	f.phase = choosing
	if w.r.IntN(5) < 2 {
		f.op.Kind, f.op.Value, f.op.Outcome = consistency.Write, int64(w.number()), consistency.Unknown
		return
	}
	if f.linear {
		f.state.Arrived()
	}
	if _, bound := f.state.Bound(); bound || f.linear {
		f.join()
	}
}

// join waits for a probe that starts from now on.
func (f *fenced) join() { f.r.probe.join(settlement{f, f.state.Mark()}, &f.place) }

// settled takes the position of a probe.
func (f *fenced) settled(mark uint64, at fence.Probe) {
	if !f.state.Settle(mark, at.Position, at.Server) {
		f.told()
	}
}

// told is the warning that what the session has written or read may be lost: for the
// judge another session begins.
func (f *fenced) told() {
	w := f.r.w
	f.log = consistency.NewLog(int32(sessions + w.opened))
	w.opened++
	w.logs = append(w.logs, f.log)
}

// follow carries the fence over to the primary's timeline.
func (f *fenced) follow() {
	if h := f.r.tracker.History(); f.state.Position().Timeline != h.Now.Timeline && f.state.Follow(h) {
		f.told()
	}
}

// choose looks for a server that may serve the operation. If there is none, it waits.
func (f *fenced) choose() {
	table := f.r.tracker.Table()
	if f.op.Kind == consistency.Read && f.r.w.r.IntN(4) > 0 {
		var able []int
		for i := range table.Backends {
			b := &table.Backends[i]
			if b.Role == route.RoleReplica && b.Healthy && b.Replayed.Covers(f.state.Position()) && f.state.Ready(f.server(i)) {
				able = append(able, i)
			}
		}
		if len(able) > 0 {
			f.ask(able[f.r.w.r.IntN(len(able))])
		}
		return
	}
	if p := table.Primary; p != route.None && f.r.w.servers[p].primary && f.passes(f.r.w.servers[p]) {
		f.ask(p)
	}
}

func (f *fenced) server(i int) fence.Server { return fence.Server{Backend: i, Run: f.r.tracker.Run(i)} }

// passes is the visibility barrier: the primary shows all that a replica has shown.
func (f *fenced) passes(p *server) bool {
	s := p.snapshot()
	doubtful, behind := s.Shows(xmax(f.saw))
	if behind {
		return false
	}
	return !slices.ContainsFunc(f.saw, func(r record) bool { return slices.Contains(doubtful, uint64(r.id)) })
}

// snapshot is the primary's pg_current_snapshot(), with records for transactions.
func (s *server) snapshot() fence.Snapshot {
	var pending []uint64
	for _, c := range s.pending {
		pending = append(pending, uint64(c.rec.id))
	}
	var out fence.Snapshot
	for _, r := range s.log {
		if !slices.Contains(pending, uint64(r.id)) {
			out.Xmax = uint64(r.id) + 1
		}
	}
	for _, id := range pending {
		if id < out.Xmax {
			out.Running = append(out.Running, id)
		}
	}
	return out
}

func xmax(log []record) (x uint64) {
	for _, r := range log {
		x = max(x, uint64(r.id)+1)
	}
	return x
}

// ask sends the operation to a server, on a connection of its own.
func (f *fenced) ask(i int) {
	srv := f.r.w.servers[i]
	if !srv.up {
		return
	}
	c := srv.connect()
	if c.run = f.r.tracker.Observe(i, srv.incarnation()); c.run == 0 || f.by != f.server(i) && !f.still(i) {
		c.close()
		return
	}
	f.conn, f.by, f.phase = c, f.server(i), asking
	if f.op.Kind == consistency.Write {
		f.state.Wrote(f.by)
		c.in = wire.AppendQuery(c.in, fmt.Sprintf("W %d %d", f.op.Key, f.op.Value))
		return
	}
	c.in = wire.AppendQuery(c.in, fmt.Sprintf("R %d", f.op.Key))
}

// still looks again at the choice after the connection has said which run it is of.
func (f *fenced) still(i int) bool {
	table := f.r.tracker.Table()
	if i == table.Primary {
		return f.r.w.servers[i].primary
	}
	return table.Backends[i].Replayed.Covers(f.state.Position()) && f.state.Ready(f.server(i))
}

// answered takes the answer, whole.
func (f *fenced) answered() {
	failed := false
	for rest := f.conn.out; len(rest) > 0; {
		typ, total, err := wire.Header(rest)
		if err != nil || total == 0 || total > len(rest) {
			broken("half an answer: %q", rest)
		}
		msg := rest[wire.HeaderSize:total]
		rest = rest[total:]
		switch typ {
		case wire.DataRow:
			var m pgproto3.DataRow
			if err := m.Decode(msg); err != nil {
				broken("a row of an answer: %v", err)
			}
			v := strings.Fields(string(m.Values[0]))
			f.op.Version, f.op.Server, f.op.Run = number(v[1]), int32(number(v[2])), int32(number(v[3]))
			if f.op.Kind == consistency.Read {
				f.op.Value = number(v[0])
			}
		case wire.ErrorResponse:
			failed = true
		}
	}
	srv := f.conn.srv
	if f.op.Kind == consistency.Write {
		f.join()
	} else if !failed {
		timeline := srv.position().Timeline
		if f.by.Backend == f.r.tracker.Table().Primary {
			timeline = 0
		} else {
			f.saw = f.conn.saw
		}
		if f.state.Saw(f.by, timeline) {
			f.join()
		}
	}
	if !failed {
		f.op.Outcome = consistency.OK
	}
	f.end()
}

// end records the operation.
func (f *fenced) end() {
	if f.conn != nil {
		f.conn.close()
		f.conn = nil
	}
	f.phase = resting
	if f.op.Kind == consistency.Read && f.op.Run == 0 {
		return // it has no answer
	}
	f.op.Return = f.r.w.now()
	f.log.Add(f.op)
	f.r.w.trace("  %+v", f.op)
	f.r.w.counts.operation(&f.op, f.r)
}
