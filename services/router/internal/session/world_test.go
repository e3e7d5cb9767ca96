package session_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// world is one session among model servers: a primary and a replica that replays
// when it likes. Everything that can happen next is put in order by chance.
type world struct {
	r  *rand.Rand
	o  *owner
	cl *cluster

	stream []byte // what the client sends
	fed    int
	got    []byte // what the client has received

	conns    [2]*postgres
	pooled   [2][]*postgres
	shows    uint64 // the writes that the replica has replayed
	version  int    // of the tables, as the replica shows them
	question []byte
	queued   *route.Request
	awaiting bool
	marks    []uint64
	run      uint32

	faults bool
	// moves says that the session goes from router to router, tamper what happens to its
	// record on the way, and moved how often it has.
	moves  bool
	tamper func(*handoff.Live)
	moved  int
	steps  int
	// canceled is how many cancel requests have reached a server.
	canceled int
}

func newWorld(r *rand.Rand, stream []byte) *world {
	w := &world{r: r, cl: &cluster{ran: map[string]int{}}, stream: stream, run: 1}
	w.o = newOwner(record(), broken)
	w.o.act = w.act
	return w
}

// judge is the model's classifier.
func judge(text string) verdict.Verdict {
	v := verdict.Verdict{Kind: verdict.Read, Fingerprint: 1}
	tell := func(p verdict.Part) {
		if v.Detail == nil {
			v.Detail = &verdict.Detail{}
			if strings.Contains(text, ";") {
				v.Detail.Parts = append(v.Detail.Parts, verdict.Part{}) // there are others
			}
		}
		v.Detail.Parts = append(v.Detail.Parts, p)
	}
	for s := range strings.SplitSeq(text, ";") {
		f := append(strings.Fields(s), "", "")
		switch f[0] {
		case "rows", "value", "standby", "recall", "settings", "copyout":
		case "DISCARD":
			v.Kind = verdict.Write
			v.Effects |= verdict.ResetsSession
		case "DEALLOCATE":
			v.Kind = verdict.Write
			v.Effects |= verdict.Session
		case "fail":
			if f[1] != "r" {
				v.Kind = verdict.Write
			}
		case "remember":
			v.Kind = verdict.Write
			v.Effects |= verdict.Session
		case "PREPARE":
			v.Kind = verdict.Write
			v.Effects |= verdict.Session
			of := judge(strings.SplitN(s, " ", 4)[3])
			tell(verdict.Part{Prepare: &verdict.Prepare{Name: f[1], Kind: of.Kind, Effects: of.Effects}})
		case "EXECUTE":
			v.Kind = verdict.Write
			v.Effects |= verdict.Unproven
			tell(verdict.Part{Execute: &verdict.Execute{Name: f[1], Kind: verdict.Read}})
		case "LISTEN", "UNLISTEN":
			v.Kind = verdict.Write
			v.Effects |= verdict.Session
		case "write":
			v.Kind = verdict.Write
			if f[1] == stepping {
				v.Effects |= verdict.Sequences
			}
		case "SELECT":
			v.Kind = verdict.Write
			v.Effects |= verdict.Session
			if s == text {
				v.Detail = calling(text)
			}
		case "BEGIN", "START", "COMMIT", "END", "ABORT":
			v.Kind = verdict.Write
			v.Effects |= verdict.Transaction
		case "SET", "RESET":
			v.Kind = verdict.Write
			if f[1] == "TRANSACTION" {
				v.Effects |= verdict.Transaction
			} else if f[1] != "LOCAL" {
				v.Effects |= verdict.Session
			}
		case "begin", "commit", "rollback", "SAVEPOINT", "RELEASE", "ROLLBACK":
			v.Kind = verdict.Write
			v.Effects |= verdict.Transaction
		default:
			v.Kind = verdict.Write
		}
	}
	return v
}

// calling gives the detail of SELECT set_config('a','v',false), with NULL for the value
// or true for false.
func calling(text string) *verdict.Detail {
	_, value, local := calls(text)
	s := verdict.Setting{Name: verdict.Operand{Literal: 1}, Value: verdict.Operand{Literal: 2}, Local: verdict.Operand{Word: strconv.FormatBool(local)}}
	if value == "NULL" {
		s.Value = verdict.Operand{Word: "null"}
	}
	return &verdict.Detail{Parts: []verdict.Part{{Settings: []verdict.Setting{s}}}}
}

func (w *world) act(a session.Action, data []byte) {
	switch a.Op {
	case session.OpToClient:
		w.got = append(w.got, data...)
	case session.OpToServer:
		p := w.conns[a.Slot]
		w.writesAreFenced(p, data)
		p.in = append(p.in, data...)
	case session.OpJudge:
		w.question = data
	case session.OpAcquire:
		r := *a.Request
		w.queued = &r
	case session.OpWithdraw:
		w.question, w.queued, w.awaiting = nil, nil, false
	case session.OpRelease:
		w.release(a)
	case session.OpSettle:
		w.marks = append(w.marks, a.Mark)
	case session.OpAwaitFence:
		w.awaiting = true
	case session.OpCancel:
		w.canceled++
		if p := w.conns[a.Slot]; w.faults && p != nil && len(p.in) > 0 {
			p.canceled = true
		}
	}
}

// writesAreFenced checks that the fence is dirty before the first byte of a
// message that may write.
func (w *world) writesAreFenced(p *postgres, data []byte) {
	if len(p.in) > 0 || p.dead || w.o.s.Fence().Dirty() {
		return // in the middle of what came before, never read, or dirty
	}
	typ, total, err := wire.Header(data)
	if err != nil || typ != wire.Query || total > len(data) {
		return // the server model looks again when it executes
	}
	text := strings.TrimSuffix(string(data[wire.HeaderSize:total]), "\x00")
	switch verb(text) {
	case ";", "PREPARE", "EXECUTE", "DEALLOCATE", "SAVEPOINT", "RELEASE", "ROLLBACK":
		return // nothing; or what they run, the server model looks at
	}
	if cs, ok := settings.Parse([]byte(text)); ok && settings.Only(cs) || judge(text).Kind == verdict.Read || judge(text).Detail != nil || strings.HasSuffix(text, " pgpilot_none") {
		return
	}
	broken("%.60q is sent while the fence is clean", data)
}

// connect makes a connection.
func (w *world) connect(slot session.Slot) *postgres {
	p := newPostgres(w.cl, slot == session.ReplicaSlot)
	if w.faults && w.r.IntN(8) == 0 {
		p.block.failing = 1 + w.r.IntN(2)
	}
	p.writing = func(stmt string) {
		if !w.o.closed && w.conns[slot] == p && !w.o.s.Fence().Dirty() {
			broken("%s runs while the fence is clean", stmt)
		}
		if !w.o.closed && p.alone && p.status == wire.Idle && w.shownStatus() != wire.Idle {
			broken("%s runs outside of its transaction", stmt)
		}
	}
	return p
}

// shownStatus is the transaction status that the client was shown last.
func (w *world) shownStatus() (status byte) {
	for b := w.got; len(b) > 0; {
		typ, total, err := wire.Header(b)
		if err != nil || total == 0 || total > len(b) {
			break
		}
		if typ == wire.ReadyForQuery {
			status = b[wire.HeaderSize]
		}
		b = b[total:]
	}
	return status
}

// accountedSettings checks that what is set on a connection is what it is taken to
// have.
func (p *postgres) accountedSettings() {
	var cs []settings.Change
	for name, v := range p.params.session {
		if v != unset {
			c := settings.Change{Name: name, SQL: name + " TO " + v}
			if v[0] == '\'' {
				c.SQL = `"` + name + `" TO ` + v
			}
			cs = append(cs, c)
		}
	}
	if l := settings.Of(cs); l.Hash() != p.params.account {
		broken("a connection with %q set is taken to have something else", p.params.all())
	}
}

// accounted checks that a connection holds what the session takes it to hold.
func accounted(p *postgres) {
	n := 0
	for name := range p.stmts {
		if strings.HasPrefix(name, "pgpilot_") && name != "pgpilot_taken" {
			n++
		}
	}
	if n != p.statements.Len() {
		broken("a connection holds %d statements and is taken to hold %d", n, p.statements.Len())
	}
	var names []string
	for name := range p.stmts {
		if name != "" && !strings.HasPrefix(name, "pgpilot_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, p.statements.Names()) {
		broken("a connection has %q under clients' names and is taken to have %q", names, p.statements.Names())
	}
}

func (w *world) release(a session.Action) {
	p := w.conns[a.Slot]
	w.conns[a.Slot] = nil
	if a.How == session.Broken || p.dead {
		return // of a server's last words on the way, the session cannot know
	}
	if a.How == session.Open {
		w.rolledBack(p)
	}
	if !p.idle() {
		broken("a connection in status %c, with %q to do and %q to say, is released %s", p.status, p.in, p.out, a.How)
	}
	if a.How == session.Clean && p.memory != "" {
		broken("a connection with state is released as clean")
	}
	if a.How == session.Clean && p.stepped || p.listens && !w.o.closed && w.o.s.Phase() != session.Closed {
		broken("a connection is released %s; a sequence was moved: %v, it listens: %v", a.How, p.stepped, p.listens)
	}
	if a.How != session.Used {
		accounted(p)
	}
	if a.How == session.Clean {
		p.accountedSettings()
	}
	p.memory, p.listens, p.stepped = "", false, false
	if a.How == session.Used { // as the pool does: DISCARD ALL
		p.stmts = map[string]*prepared{}
		p.statements.Clear()
		clear(p.params.session)
		p.params.end(true)
		p.params.account = settings.Hash{}
		p.params.reported = unset
	}
	w.pooled[a.Slot] = append(w.pooled[a.Slot], p)
}

// rolledBack ends the transaction of a connection that is released in one, as the pool
// does.
func (w *world) rolledBack(p *postgres) {
	if p.status == wire.Idle {
		broken("a connection without a transaction is released as one with")
	}
	p.in = append(p.in, message(wire.Query, "ROLLBACK\x00")...)
	for p.step() {
	}
	if !bytes.HasSuffix(p.out, message(wire.ReadyForQuery, "I")) {
		broken("a connection that is released says %q", p.out)
	}
	p.out = nil
	p.statements.Queried()
}

// lend lends the connection that the request asks for.
func (w *world) lend() {
	r := w.queued
	w.queued = nil
	slot, reason := session.PrimarySlot, r.Reason
	if r.Read && w.r.IntN(4) > 0 && !r.Tried.Has(1) && (r.Only == 0 || r.Only.Has(1)) && (!r.Strict || lsn.LSN(w.shows) >= r.Fence.LSN) {
		slot, reason = session.ReplicaSlot, route.ReasonRead
	}
	if w.conns[slot] == nil {
		if n := len(w.pooled[slot]); n > 0 && w.r.IntN(3) > 0 {
			i := w.r.IntN(n)
			w.conns[slot] = w.pooled[slot][i]
			w.pooled[slot] = append(w.pooled[slot][:i], w.pooled[slot][i+1:]...)
		} else {
			w.conns[slot] = w.connect(slot)
			if w.r.IntN(4) == 0 {
				w.conns[slot].usedBefore([]string{"a", "tz"}[w.r.IntN(2)], "another's")
			}
		}
	}
	w.o.granted(&session.Grant{
		Slot: slot, Backend: int(slot), Server: fence.Server{Backend: int(slot), Run: w.run}, Reason: reason, Name: "p0", Waited: time.Millisecond,
		Replayed: lsn.Position{Timeline: 1, LSN: lsn.LSN(w.shows)}, Statements: &w.conns[slot].statements, Settings: &w.conns[slot].params.account,
	})
}

// probe settles everything that has been answered so far.
func (w *world) probe() {
	at := fence.Probe{Position: lsn.Position{Timeline: 1, LSN: lsn.LSN(w.cl.writes)}, Server: fence.Server{Run: w.run}}
	for _, m := range w.marks {
		w.o.settled(m, at)
	}
	w.marks = nil
	if w.awaiting && !w.o.s.Settling() {
		w.fenceReady()
	}
}

func (w *world) fenceReady() {
	w.awaiting = false
	w.o.tell(w.o.s.FenceReady)
}

// events gives what can happen next; none if nothing can.
func (w *world) events() []func() {
	var es []func()
	if w.o.closed {
		return nil
	}
	if w.fed < len(w.stream) && w.o.s.Reads() {
		es = append(es, func() {
			n := w.piece(len(w.stream) - w.fed)
			if w.moves && w.r.IntN(2) == 0 {
				n = requestLen(w.stream[w.fed:]) // it can move before the next one comes
			}
			w.fed += n
			w.o.client(w.stream[w.fed-n : w.fed])
		})
	}
	if w.question != nil {
		es = append(es, func() {
			v := judge(string(w.question))
			if w.r.IntN(20) == 0 && !bytes.Contains(w.question, []byte("PREPARE")) && !bytes.Contains(w.question, []byte("EXECUTE")) { // whose names would not be known
				v = verdict.Unclassified()
				v.Effects |= verdict.Session
			}
			if w.r.IntN(2) == 0 && v.Fingerprint != 0 {
				w.o.verdicts[string(w.question)] = v
			}
			w.question = nil
			w.o.tell(func() { w.o.s.Judged(v) })
		})
	}
	if w.queued != nil {
		es = append(es, w.lend)
	}
	if w.moves && w.o.s.Safe() && w.calm() && w.r.IntN(4) == 0 {
		es = append(es, w.move)
	}
	if w.awaiting && w.r.IntN(4) == 0 {
		es = append(es, w.fenceReady) // too late
	}
	if len(w.marks) > 0 {
		es = append(es, w.probe)
	}
	if w.shows < w.cl.writes && w.r.IntN(2) == 0 {
		es = append(es, func() { w.shows++ })
	}
	for slot, p := range w.conns {
		if p == nil {
			continue
		}
		p.shows = w.shows
		p.version = w.schema()
		if _, total, err := wire.Header(p.in); err == nil && total > 0 && len(p.in) >= total && !p.dead {
			es = append(es, func() { p.step() })
		}
		if len(p.out) > 0 {
			es = append(es, func() {
				n := w.piece(len(p.out))
				b := p.out[:n:n]
				p.out = p.out[n:]
				w.o.server(session.Slot(slot), b)
			})
		} else if p.dead {
			es = append(es, func() { w.o.lost(session.Slot(slot)) })
		}
	}
	return es
}

// requestLen is how long the request at the head of a stream is: up to a simple query or
// a Sync, or what there is of a message that has been fed in part.
func requestLen(stream []byte) (n int) {
	for n < len(stream) {
		typ, total, err := wire.Header(stream[n:])
		if err != nil || total == 0 || total > len(stream)-n {
			return len(stream)
		}
		n += total
		if typ == wire.Query || typ == wire.FunctionCall || typ == wire.Sync {
			break
		}
	}
	return n
}

// calm reports whether nothing is under way that the loop would wait for: bytes of a
// connection that is held.
func (w *world) calm() bool {
	for slot := range w.conns {
		if len(w.o.serverUnread[slot]) > 0 {
			return false
		}
	}
	return true
}

// move has the session go on in another router, which knows what it is told and nothing
// else, and has connections of its own.
func (w *world) move() {
	w.moved++
	if w.r.IntN(2) == 0 {
		clear(w.o.verdicts)
		w.pooled = [2][]*postgres{}
	}
	w.marks = nil // of the session that was
	w.o.move(w.tamper, w.arrive)
}

// arrive gives the connection that comes along with a session.
func (w *world) arrive(l *handoff.Lease) *session.Grant {
	slot := session.PrimarySlot
	if l.Replica {
		slot = session.ReplicaSlot
	}
	p := w.conns[slot]
	p.statements = session.Statements{}
	p.statements.Unpack(l)
	p.params.account = settings.Hash{}
	copy(p.params.account[:], l.Settings)
	return &session.Grant{
		Slot: slot, Backend: int(slot), Server: fence.Server{Backend: int(slot), Run: w.run},
		Statements: &p.statements, Settings: &p.params.account,
	}
}

// schema is the version of the tables that the replica has replayed: all of it,
// unless it has not replayed all.
func (w *world) schema() int {
	if w.shows >= w.cl.writes {
		w.version = w.cl.version
	}
	return w.version
}

// piece is the size of a part of n bytes: often all, often a few.
func (w *world) piece(n int) int {
	switch w.r.IntN(3) {
	case 0:
		return n
	case 1:
		return 1 + w.r.IntN(min(n, 12))
	}
	return 1 + w.r.IntN(n)
}
