package session

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// A connection is equipped before a request that names statements as the client does:
// what it has under such a name of another session is deallocated, and what the client
// has prepared is prepared there, by the client's own text, so that an error is the one
// that EXECUTE would raise. Nothing of the request is sent before the answers.

// prepare notes that the connection has a statement under the name that its client gave.
func (t *Statements) prepare(name string, at underName) {
	if t.sql == nil {
		t.sql = map[string]underName{}
	}
	t.sql[name] = at
}

// has reports whether it has the statement under that name, however old.
func (t *Statements) has(st *Statement) bool {
	at, ok := t.sql[st.client]
	return ok && at.id == st.there()
}

// Names gives the names that clients gave to what the connection holds, in order; those
// that are made of their content are not among them.
func (t *Statements) Names() []string {
	var names []string
	for n := range t.sql {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// equipment is a name under which a connection is to have a statement; nil: nothing.
type equipment struct {
	name string
	st   *Statement
}

// equipping is what is under way of that.
type equipping struct {
	// steps are the requests that the server has yet to answer. Those that have no
	// equipment see to it that a failure of another one is none of the transaction.
	steps []equipment
	// all says that none of them is needed by itself, drops that the connection only loses
	// something: what the request needs is still to be looked at.
	all, drops bool
	// begun says that part of the answer to the step at hand has come, done that it has been
	// executed, whatever fails behind that; code is how it has failed, if it has.
	begun, done bool
	code        string
	// word is how the first one has failed, or the first that was canceled. kept says that
	// the connection still has what it should have lost.
	word *Problem
	kept bool
	// from is the origin of what the connection is given.
	from origin
	// aborts says that the last step makes the client's transaction fail.
	aborts bool
}

// stopped reports whether a step was canceled.
func (q *equipping) stopped() bool { return q.word != nil && q.word.Code == canceled.Code }

// others gives the names under which the connection in use has something that is not the
// client's.
func (s *Session) others() (names []string) {
	t := s.held[s.at].statements
	if len(t.sql) == 0 {
		return nil
	}
	for _, n := range t.Names() {
		if st := s.named[n]; st == nil || !t.has(st) {
			names = append(names, n)
		}
	}
	return names
}

// equips begins to equip the connection in use for the request at the head, of which msg
// is there, and reports whether there is anything to do.
func (s *Session) equips(typ byte, msg []byte) bool {
	t := s.held[s.at].statements
	if s.equipped || s.status == wire.Failed || len(t.sql) == 0 && !s.sql && s.verdict.Detail == nil && !s.deallocatesParsed(typ, msg) {
		return false
	}
	us, all := s.needs(typ, msg)
	if s.pins&pinState != 0 { // what is there is the client's
		us = slices.DeleteFunc(us, func(u use) bool {
			_, noted := t.sql[u.name]
			return s.named[u.name] == nil && !noted
		})
	}
	var todo []equipment
	for _, u := range us {
		todo = append(todo, s.lacking(u)...)
	}
	if all {
		for _, n := range s.others() {
			if !used(us, n) {
				todo = append(todo, equipment{n, nil})
			}
		}
		from := len(todo)
		for _, st := range s.named {
			if !st.sql || s.has(st) || used(us, st.client) {
				continue
			}
			if t.has(st) {
				todo = append(todo, equipment{st.client, nil})
			}
			todo = append(todo, equipment{st.client, st})
		}
		slices.SortStableFunc(todo[from:], func(a, b equipment) int { return cmp.Compare(a.name, b.name) })
	}
	if len(todo) == 0 {
		return false
	}
	s.equip(todo, all)
	return true
}

// loses has the connection in use lose what is not the client's. What is set on it stays,
// of which not all may be known.
func (s *Session) loses(names []string) {
	todo := make([]equipment, len(names))
	for i, n := range names {
		todo[i].name = n
	}
	s.equip(todo, true)
	s.equipping.drops = true
}

// needs says what of the client's statements the request at the head needs: what it
// names, or all that is prepared with SQL, with nothing beside that is another's.
func (s *Session) needs(typ byte, msg []byte) (us []use, all bool) {
	if !simple(typ) {
		return nil, s.at == PrimarySlot // who knows what is still to come
	}
	v := &s.verdict
	text, ok := wire.QueryText(msg)
	l, isLocal := s.localOf(text)
	switch {
	case typ != wire.Query || !ok:
		return nil, true
	case isLocal:
		return []use{{toDeallocate, l.name}}, false
	case v.Detail != nil && len(v.Detail.Parts) == 1 && (executesSQL(v) != nil || prepares(v) != nil):
		return usesIn(v), false
	case v.Kind == verdict.Read:
		return nil, false
	}
	cmds, once := s.queried(text, *v)
	all = v.Fingerprint == 0 || unfollowed(once, cmds)&(verdict.Session|verdict.Unproven) != 0 || mentions(text) || s.strays(cmds)
	return s.usesOf(text, v), all
}

// describesSQL reports whether a whole Describe is of a statement prepared with SQL.
func (s *Session) describesSQL(msg []byte) bool {
	kind, name, ok := splitTarget(msg)
	if !ok || kind != 'S' || !s.sql {
		return false
	}
	st := s.statement(name)
	return st != nil && st.sql
}

// equipInside prepares a statement in the middle of a sequence. If the server
// refuses, the message that needs it is discarded with the others up to Sync.
func (s *Session) equipInside(st *Statement, run *forwarding) {
	s.loseInside(st.client, run)
	if st.sql {
		s.inside(run, string(st.body[:st.text]), owed{gives: st.client})
	} else {
		s.owed.sent(owed{typ: wire.Parse, how: hide, gives: st.client})
		run.build(func(b []byte) []byte { return appendParse(b, st.client, st.bodyThere()) })
	}
	s.held[s.at].statements.prepare(st.client, underName{st.there(), s.origin()})
}

// loseInside has the connection lose what it has under a name, if anything, in the middle
// of a sequence.
func (s *Session) loseInside(name string, run *forwarding) {
	t := s.held[s.at].statements
	had, ok := t.sql[name]
	if !ok {
		return
	}
	delete(t.sql, name)
	s.owed.sent(owed{typ: wire.Close, how: hide, gives: name, had: &had})
	run.build(func(b []byte) []byte { return appendTarget(b, wire.Close, name) })
}

// makeWay has the connection in use not have what it was given under a name that stands for
// nothing, and is about to.
func (s *Session) makeWay(name string, run *forwarding) {
	if s.named[name] == nil {
		s.loseInside(name, run)
	}
}

// supply gives the connection in use what a statement that is about to be bound or
// described names.
func (s *Session) supply(st *Statement, run *forwarding) {
	if st.verdict.Detail == nil || s.failing() {
		return
	}
	for _, u := range firsts(usesIn(&st.verdict)) {
		s.supplyUse(u, run)
	}
}

// supplyQuery gives the connection in use what a simple query in the middle of a sequence
// names: that has been executed, though there was no Sync yet. waits says that it is to be
// known first whether there is a transaction that has failed.
func (s *Session) supplyQuery(msg []byte, run *forwarding) (us []use, waits bool) {
	text, ok := wire.QueryText(msg)
	if !ok || !s.legible(text) {
		return nil, false
	}
	if us = s.dialect().uses(text); len(us) == 0 {
		return nil, false
	}
	if s.awaitsEnd(run) {
		return nil, true
	}
	if !s.failing() {
		for _, u := range firsts(us) {
			s.supplyUse(u, run)
		}
	}
	return us, false
}

// supplyUse gives the connection in use what a name stands for in the middle of a sequence,
// as far as that matters.
func (s *Session) supplyUse(u use, run *forwarding) {
	for _, e := range s.lacking(u) {
		if e.st == nil {
			s.loseInside(e.name, run)
		} else {
			s.equipInside(e.st, run)
		}
	}
}

// inside executes a statement in the middle of a sequence, unseen. changes says what that
// gives the connection, or takes from it.
func (s *Session) inside(run *forwarding, sql string, changes owed) {
	for _, typ := range []byte{wire.Close, wire.Parse, wire.Bind, wire.Execute, wire.Close} {
		o := owed{}
		if typ == wire.Execute {
			o = changes
		}
		o.typ, o.how = typ, hide
		s.owed.sent(o)
	}
	run.build(func(b []byte) []byte {
		b = appendTarget(b, wire.Close, decoy)
		b = appendParse(b, decoy, append([]byte(sql), 0, 0, 0))
		b = append(b, wire.Bind)
		b = binary.BigEndian.AppendUint32(b, uint32(4+2*(len(decoy)+1)+6))
		b = append(append(b, decoy...), 0)
		b = append(append(b, decoy...), 0, 0, 0, 0, 0, 0, 0)
		b = append(b, wire.Execute)
		b = binary.BigEndian.AppendUint32(b, uint32(4+len(decoy)+1+4))
		b = append(append(b, decoy...), 0, 0, 0, 0, 0)
		b = append(b, wire.Close)
		b = binary.BigEndian.AppendUint32(b, uint32(4+1+len(decoy)+1))
		return append(append(append(b, 'P'), decoy...), 0)
	})
}

// unequipped reports whether the connection in use does not have a statement that is
// prepared with SQL: its transaction had failed when its sequence began.
func (s *Session) unequipped(st *Statement) bool {
	return st.sql && !s.has(st)
}

// lacking gives what is to be done so that a name in a text stands for what it is to the
// client, as far as that matters: to whoever does not execute it, whether it is taken.
func (s *Session) lacking(u use) (todo []equipment) {
	st, t := s.named[u.name], s.held[s.at].statements
	_, there := t.sql[u.name]
	switch {
	case st == nil:
	case st.raw && !st.sql:
		return nil // where it is, it is
	case u.verb != toExecute && there:
		return nil
	case u.verb != toExecute:
		st = taking(u.name, st)
	case st.sql:
	case st.local.kind == notLocal:
		s.lives(st)
	default:
		st = nil // the router's own statements are not for EXECUTE
	}
	if there && (st == nil || !s.has(st)) {
		todo = append(todo, equipment{u.name, nil})
	}
	if st != nil && !s.has(st) {
		todo = append(todo, equipment{u.name, st})
	}
	return todo
}

// shield begins and ends what must not fail the client's transaction. PREPARE is not
// undone with it.
const (
	shield   = "SAVEPOINT " + serverPrefix + "shield"
	unshield = "ROLLBACK TO SAVEPOINT " + serverPrefix + "shield; RELEASE SAVEPOINT " + serverPrefix + "shield"
)

// equip sends what is to be done.
func (s *Session) equip(todo []equipment, all bool) {
	s.enter(Applying)
	s.held[s.at].statements.dropUnnamed()
	s.equipping = equipping{all: all, from: s.origin()}
	from := len(s.built)
	for _, e := range todo {
		if e.st == nil {
			s.step(e, "DEALLOCATE "+quotedName(e.name))
			continue
		}
		shielded := all && s.inTransaction()
		if shielded {
			s.step(equipment{}, shield)
		}
		if e.st.sql {
			s.step(e, string(e.st.body[:e.st.text]))
		} else {
			s.built = appendParse(s.built, e.name, e.st.bodyThere())
			s.built = append(s.built, wire.Sync, 0, 0, 0, 4)
			s.equipping.steps = append(s.equipping.steps, e)
		}
		if shielded {
			s.step(equipment{}, unshield)
		}
	}
	s.do(Action{Op: OpToServer, Slot: s.at, Data: s.built[from:]})
}

// step adds a simple query.
func (s *Session) step(e equipment, sql string) {
	s.equipping.steps = append(s.equipping.steps, e)
	s.built = wire.AppendQuery(s.built, sql)
}

// quotedName writes a name as SQL has it.
func quotedName(name string) string {
	return string(append(append([]byte{'"'}, bytes.ReplaceAll([]byte(name), []byte{'"'}, []byte(`""`))...), '"'))
}

// fromEquipping looks at a message that answers a step, and reports whether it can be
// one.
func (s *Session) fromEquipping(typ byte, msg []byte) bool {
	q := &s.equipping
	switch typ {
	case wire.CommandComplete, wire.ParseComplete:
		q.begun, q.done, s.owed.unsure = true, true, 0
		return true
	case wire.NoticeResponse:
		return true
	case wire.NotificationResponse:
		s.notified()
		from := len(s.scratch)
		s.scratch = append(s.scratch, msg...)
		s.toClient(from)
		return true
	case wire.ErrorResponse:
		q.begun, q.code, s.owed.unsure = true, errorCode(msg), 0
		if q.word == nil || q.code == canceled.Code && !q.stopped() {
			q.word = refusal(msg)
			q.word.whole = bytes.Clone(msg)
		}
		return true
	case wire.ReadyForQuery:
	default:
		return false
	}
	if len(msg) <= wire.HeaderSize || isReady(msg, wire.Idle) == s.inTransaction() {
		return false
	}
	if !q.begun && s.owed.unsure > 0 { // the answer to a Sync that was not ignored
		s.owed.unsure--
		s.showReady()
		return true
	}
	if !q.begun {
		return false
	}
	e, t := q.steps[0], s.held[s.at].statements
	switch {
	case e.name == "":
	case e.st == nil && (q.done || q.code == noSuchStatement):
		delete(t.sql, e.name)
	case e.st == nil:
		q.kept = true
	case q.done:
		t.prepare(e.name, underName{e.st.there(), q.from})
	}
	q.steps, q.begun, q.done, q.code = q.steps[1:], false, false, ""
	if len(q.steps) > 0 {
		return true
	}
	if !s.block.here() {
		s.status = msg[wire.HeaderSize]
	}
	if s.interrupted && !q.stopped() { // perhaps when the server had nothing to cancel
		q.word = &canceled
	}
	if s.interrupted && s.status == wire.InTransaction && s.inTransaction() {
		return s.abort()
	}
	s.equippedNow()
	return true
}

// abort makes the client's transaction fail, as a statement that is canceled does: a shield
// has kept it from that, or nothing was canceled. It reports false where it has not failed.
func (s *Session) abort() bool {
	if s.equipping.aborts {
		return false
	}
	s.equipping.aborts = true
	from := len(s.built)
	s.step(equipment{}, "ROLLBACK TO "+noStatement)
	s.do(Action{Op: OpToServer, Slot: s.at, Data: s.built[from:]})
	return true
}

// equippedNow goes on with the request. A statement that it needs and that the server has
// refused fails it; a replica may not know yet what the primary knows. So does a cancel
// request of the client's; and with what is another session's nothing runs.
func (s *Session) equippedNow() {
	q := s.equipping
	s.equipping = equipping{}
	s.equipped = !q.drops
	how, by := Clean, s.held[s.at].by
	if q.kept {
		how = Broken
	}
	p, meant := q.word, s.interrupted
	switch {
	case p == nil || q.all && s.status != wire.Failed && !q.kept && !meant:
		s.proceed()
	case q.drops && !meant && s.applies < maxApplies: // nothing of the client's has failed
		s.let(s.at, how)
		s.applyElsewhere(by.Backend)
	case s.at == ReplicaSlot && p.Code != canceled.Code:
		s.let(s.at, how)
		s.acquire(route.Request{Reason: route.ReasonUnprepared})
	default:
		if !s.inTransaction() && !s.bound(s.at) {
			s.let(s.at, how)
		}
		s.applies = 0
		s.enter(Queued)
		s.Refuse(p)
	}
}
