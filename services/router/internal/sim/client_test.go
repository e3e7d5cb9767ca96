package sim

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/consistency"
	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// client is one session, with what the router keeps of it and what its client does.
type client struct {
	r      *router
	s      *session.Session
	conns  [2]*conn
	unread [2][]byte
	// request is what it asks a connection for, if asks; waits is the backend that one
	// is being made to.
	request  route.Request
	asks     bool
	waits    int
	awaiting bool
	place    fence.Place
	// What follows is its wait for the barrier, if it crosses; over is where it has passed.
	crossing   fence.Crossing
	crossPlace fence.Place
	crosses    bool
	turn       int
	by         fence.Server
	everyone   bool
	over       fence.Server
	closed     bool
	// performing says that actions are being performed.
	performing bool

	// fromClient is what the session has not used.
	fromClient []byte

	// What follows is the client's.
	log *consistency.Log
	got []byte
	// op is under way if busy; script is what is still to be sent for it.
	op     consistency.Op
	busy   bool
	script []string
	// reading says that the operation is a transaction of several reads, losses, how many
	// failovers there had been when it began, reads, how many it has read, and shown, which
	// versions.
	reading       bool
	losses, reads int
	shown         [keys]int64
}

func newClient(r *router, number int) *client {
	c := &client{r: r, log: consistency.NewLog(int32(number)), waits: route.None}
	c.s = session.New(&handoff.Record{Session: fmt.Sprint(number), User: "app", Database: "app", Protocol: 3 << 16}, c)
	c.step(func() { c.s.Start([]handoff.Parameter{}) })
	c.got = nil
	return c
}

// Settings, Verdict, Keep and Drop are what a session needs to know.

func (c *client) Settings() *session.Settings { return &c.r.settings }

func (c *client) Parsings() *session.Parsings { return &c.r.parsings }

func (c *client) Moment() time.Duration { return time.Duration(c.r.w.clock) * time.Millisecond }

func (c *client) Beginnings() session.Beginnings {
	return session.Beginnings{Known: true, Isolation: settings.ReadCommitted}
}

func (c *client) Current(verdict.Verdict) bool { return true }

func (c *client) Verdict(_ *session.Session, text []byte) (verdict.Verdict, bool) {
	switch text[0] {
	case 'R':
		if text[1] == ' ' {
			return verdict.Verdict{Kind: verdict.Read, Fingerprint: 1}, true
		}
		fallthrough
	case 'B':
		return verdict.Verdict{Effects: verdict.Transaction, Fingerprint: 1}, true
	case 'C':
		if text[1] == 'O' {
			return verdict.Verdict{Effects: verdict.Transaction, Fingerprint: 1}, true
		}
	}
	return verdict.Verdict{Fingerprint: 1}, true
}

func (c *client) Token(*session.Session, lsn.Position) string { return "" }

func (c *client) Serves(s *session.Session, by fence.Server) bool {
	c.follow()
	q := route.Request{Read: true, Strict: true, Mode: fence.Causal, Fence: s.Fence().Position(), Only: route.Set(0).With(by.Backend), Run: by.Run}
	c.r.complete(&q)
	return route.Eligible(c.r.tracker.Table(), &q, by.Backend)
}

func (c *client) Keep(b []byte) []byte { return bytes.Clone(b) }
func (c *client) Drop([]byte)          {}

func (c *client) Unsuited(*session.Session, []byte) {}

// step calls f, performs what comes of it, and gives the session what it left unread.
func (c *client) step(f func()) {
	f()
	if c.performing {
		return // the caller goes on
	}
	c.perform()
	for len(c.fromClient) > 0 && !c.closed && c.s.Reads() {
		steps := c.s.Steps()
		used := c.s.FromClient(c.fromClient)
		c.fromClient = c.fromClient[used:]
		c.perform()
		if used == 0 && c.s.Steps() == steps {
			break
		}
	}
	c.listen()
}

func (c *client) perform() {
	c.performing = true
	for i := 0; i < len(c.s.Actions()) && !c.closed; i++ {
		a := c.s.Actions()[i]
		switch a.Op {
		case session.OpToClient:
			c.got = append(c.got, a.Data...)
		case session.OpToServer:
			if to := c.conns[a.Slot]; to != nil && !to.dead {
				to.in = append(to.in, a.Data...)
			}
		case session.OpJudge:
			broken("a verdict is asked for that is known")
		case session.OpAcquire:
			c.r.acquire(c, *a.Request)
		case session.OpWithdraw:
			c.asks, c.awaiting, c.crosses = false, false, false
		case session.OpRelease:
			if len(c.unread[a.Slot]) > 0 {
				a.How = session.Broken
			}
			c.unread[a.Slot] = nil
			c.r.release(c, a.Slot, a.How)
		case session.OpSettle:
			c.r.probe.join(settlement{c, a.Mark}, &c.place)
		case session.OpAwaitFence:
			c.awaiting = true
		case session.OpClose:
			c.closed = true
		}
	}
	c.s.Reset()
	c.performing = false
}

func (c *client) fenceReady() {
	c.awaiting = false
	c.s.FenceReady()
}

// settled takes the position of a probe.
func (c *client) settled(mark uint64, at fence.Probe) {
	if c.closed {
		return
	}
	c.step(func() {
		if !c.s.Settled(mark, at) {
			c.told()
		}
		if c.awaiting && !c.s.Settling() {
			c.fenceReady()
		}
	})
}

// follow carries the fence over to the primary's timeline.
func (c *client) follow() {
	if f, h := c.s.Fence(), c.r.tracker.History(); f.Position().Timeline != h.Now.Timeline && f.Follow(h) {
		c.told()
	}
}

// told is the warning that what the session has written or read may be lost. Where it
// must remember what it has seen, another session begins for the judge.
func (c *client) told() {
	c.shown = [keys]int64{} // the transaction that it is in may go back
	if w := c.r.w; c.r.settings.Values.Mode.Remembers() {
		c.log = consistency.NewLog(int32(w.opened))
		w.opened++
		w.logs = append(w.logs, c.log)
	}
}

// arrives gives the session what a server has said.
func (c *client) arrives(slot session.Slot, n int) {
	from := c.conns[slot]
	given := append(c.unread[slot], from.out[:n]...)
	from.out = from.out[n:]
	c.step(func() {
		used := c.s.FromServer(slot, given)
		if c.conns[slot] == from {
			c.unread[slot] = bytes.Clone(given[used:])
		}
	})
}

func (c *client) lost(slot session.Slot) {
	c.unread[slot] = nil
	c.step(func() { c.s.ServerLost(slot) })
}

// begin begins an operation.
func (c *client) begin() {
	w := c.r.w
	key := int32(w.r.IntN(keys))
	c.busy, c.reading = true, false
	c.op = consistency.Op{Key: key, Invoke: w.now()}
	if w.r.IntN(5) < 3 {
		c.script = append(c.script[:0], fmt.Sprintf("R %d", key))
		if w.r.IntN(4) == 0 || w.rough && w.r.IntN(2) == 0 { // which is the primary's to answer
			c.script = append(c.script[:0], "BEGIN", fmt.Sprintf("R %d", key), "COMMIT")
		} else if w.r.IntN(3) == 0 {
			c.reading, c.losses, c.reads, c.shown = true, w.counts.losses+w.counts.promotions, 0, [keys]int64{}
			c.script = append(c.script[:0], "BEGIN READ ONLY")
			for range 2 + w.r.IntN(3) {
				c.script = append(c.script, fmt.Sprintf("R %d", w.r.IntN(keys)))
			}
			c.script = append(c.script, "COMMIT")
		}
		c.send()
		return
	}
	c.op.Kind, c.op.Value, c.op.Outcome = consistency.Write, int64(w.number()), consistency.Unknown
	write := func(verb string) string { return fmt.Sprintf("%s %d %d", verb, key, c.op.Value) }
	switch w.r.IntN(6) {
	case 0:
		c.script = append(c.script[:0], "BEGIN", write("W"), "COMMIT")
	case 1:
		c.script = append(c.script[:0], "BEGIN", write("W"), "ROLLBACK")
		c.op.Outcome = consistency.Failed
	case 2:
		c.script = append(c.script[:0], write("C"))
	case 3:
		c.script = append(c.script[:0], write("A"))
	default:
		c.script = append(c.script[:0], write("W"))
	}
	c.send()
}

// send sends the next statement of the script.
func (c *client) send() {
	text := c.script[0]
	c.script = c.script[1:]
	if c.reading && text[1] == ' ' {
		c.op.Key, c.op.Invoke = int32(number(text[2:])), c.r.w.now()
	}
	c.step(func() { c.fromClient = wire.AppendQuery(c.fromClient, text) })
}

// listen looks at what has arrived, up to the answers' end.
func (c *client) listen() {
	for c.busy {
		var row, code string
		done := false
		rest := c.got
		for !done && len(rest) > 0 {
			typ, total, err := wire.Header(rest)
			if err != nil || total == 0 || total > len(rest) {
				break
			}
			msg := rest[:total]
			rest = rest[total:]
			switch typ {
			case wire.DataRow:
				var m pgproto3.DataRow
				if err := m.Decode(msg[wire.HeaderSize:]); err != nil {
					broken("a row of an answer: %v", err)
				}
				row = string(m.Values[0])
			case wire.ErrorResponse:
				var m pgproto3.ErrorResponse
				if err := m.Decode(msg[wire.HeaderSize:]); err != nil {
					broken("an error: %v", err)
				}
				code = m.Code
			case wire.ReadyForQuery:
				done = true
			}
		}
		if !done {
			if c.closed {
				c.end()
			}
			return
		}
		c.got = append(c.got[:0], rest...)
		c.answered(row, code)
	}
}

// answered takes the answer to one statement.
func (c *client) answered(row, code string) {
	if c.reading && row != "" {
		c.hasRead(strings.Fields(row))
	} else if row != "" {
		f := strings.Fields(row)
		c.op.Version = number(f[1])
		c.op.Server, c.op.Run = int32(number(f[2])), int32(number(f[3]))
		if c.op.Kind == consistency.Read {
			c.op.Value = number(f[0])
		}
	}
	switch {
	case code == "KV001":
		c.op.Outcome, c.op.Version = consistency.OK, 0
		c.end()
	case code != "":
		if len(c.script) > 0 { // before its COMMIT
			c.op.Outcome = consistency.Failed
			c.script = append(c.script[:0], "ROLLBACK")
			c.send()
			return
		}
		if c.op.Kind == consistency.Read {
			c.op.Outcome = consistency.Unknown
		}
		c.end()
	case len(c.script) > 0:
		c.send()
	default:
		if c.op.Outcome == consistency.Unknown {
			c.op.Outcome = consistency.OK
		}
		c.end()
	}
}

// hasRead records a read of a transaction that only reads. Within it nothing goes back,
// whatever the mode, unless something is lost.
func (c *client) hasRead(f []string) {
	w := c.r.w
	op := c.op
	op.Value, op.Version = number(f[0]), number(f[1])
	op.Server, op.Run, op.Return = int32(number(f[2])), int32(number(f[3])), w.now()
	if op.Version < c.shown[op.Key] && c.losses == w.counts.losses+w.counts.promotions {
		broken("a transaction reads version %d of key %d behind version %d", op.Version, op.Key, c.shown[op.Key])
	}
	c.shown[op.Key] = op.Version
	c.reads++
	if c.reads == 1 || !w.servers[op.Server].primary || c.r.settings.Values.Mode != fence.Linear {
		// In linear, on the primary, the block's first statement there decides.
		c.log.Add(op)
		w.counts.operation(&op, c.r)
	}
}

// end records the operation.
func (c *client) end() {
	c.busy = false
	if c.reading {
		return
	}
	if c.op.Outcome != consistency.OK {
		c.op.Version = 0
	}
	if c.op.Kind == consistency.Read && c.op.Run == 0 {
		return // it has no answer
	}
	c.op.Return = c.r.w.now()
	c.log.Add(c.op)
	c.r.w.counts.operation(&c.op, c.r)
}
