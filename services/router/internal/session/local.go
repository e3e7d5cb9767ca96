package session

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// local is a statement that the router executes itself: about prepared statements,
// which on servers mostly have other names and are not only this client's, or about the
// router's own parameters.
type local struct {
	kind localKind
	// name is the statement's of DEALLOCATE.
	name string
	// own is what is done to a parameter; formats, of a portal, are those of the
	// columns that it shows.
	own     *settings.Own
	formats []int16
}

type localKind uint8

const (
	notLocal localKind = iota
	deallocate
	deallocateAll
	discardAll
	ownParameter
)

// localOf reads statements about the router's own parameters, and DEALLOCATE and
// DISCARD ALL (PostgreSQL documentation: "SQL Commands").
func (s *Session) localOf(text []byte) (local, bool) {
	if os, ok := settings.ParseOwn(text); ok && len(os) == 1 {
		return local{kind: ownParameter, own: &os[0]}, true
	}
	if !mayDeallocate(text) {
		return local{}, false
	}
	return s.dialect().deallocate(text)
}

// executes reports whether the router executes it: if it can only be about what it
// knows that the client has prepared. Whatever else there is binds the session to
// its connection.
func (s *Session) executes(l *local) bool {
	switch l.kind {
	case deallocate:
		st := s.named[l.name]
		return st != nil && (!st.raw || st.sql) || st == nil && s.pins == 0
	case deallocateAll:
		return s.pins == 0
	case ownParameter:
		return true
	}
	return false
}

// forgets reports whether no prepared statements are left after it.
func (l *local) forgets() bool { return l.kind == deallocateAll || l.kind == discardAll }

// shows reports whether it is a SHOW.
func (l *local) shows() bool { return l.kind == ownParameter && l.own.Verb == settings.ShowOwn }

// verdict is what must be known of it to choose a server for what it is sent with.
func (l *local) verdict() verdict.Verdict {
	switch {
	case l.shows():
		return shown
	case l.kind == ownParameter:
		return harmless
	case l.kind == discardAll:
		return forgets
	}
	return deallocates
}

// queryHere executes a simple query that is the router's to execute. In a failed
// transaction there are none: the server says so.
func (s *Session) queryHere(text []byte) bool {
	if s.status == wire.Failed {
		return false
	}
	l, ok := s.localOf(text)
	switch {
	case !ok:
		return false
	case l.kind == discardAll && s.pins == 0 && s.status == wire.Idle && !s.bound(PrimarySlot) && !s.stepped && s.set.List().Hash() == settings.Hash{}:
		// There is nothing else to discard, but parameters of the router's own.
		clear(s.named)
		s.set.Clear()
		s.changed()
	case !s.executes(&l):
		return false
	case l.kind == deallocate && s.named[l.name] == nil:
		return false // the server's error fails its transaction
	case l.kind == deallocate && s.owed.unsure > 0:
		own := l // so that l stays where it is, on the stack
		s.answerOwn(&ownQuery{local: &own})
		return true
	case l.kind == deallocate:
		s.define(l.name, nil)
	default:
		clear(s.named)
	}
	s.simpleHere() // as with every simple query
	s.stale = s.inTransaction()
	from := len(s.scratch)
	s.scratch = appendTag(s.scratch, &l)
	s.scratch = wire.AppendReadyForQuery(s.scratch, s.status)
	s.toClient(from)
	return true
}

// parseHere notes a statement that the router executes. What becomes of it is
// known only after the sequences before it.
func (s *Session) parseHere(name, body []byte, l local, total int, run *forwarding) int {
	if s.owed.syncs > 0 {
		return s.wait()
	}
	if s.awaitsEnd(run) {
		return 0
	}
	s.seq.parsed()
	p := &aborted
	if !s.failing() {
		if p = undetermined(body[bytes.IndexByte(body, 0)+1+2:]); p == nil {
			p = s.parsedOwn(&l)
		}
	}
	if p != nil {
		s.failParse(run, p, name)
		return total
	}
	st := &Statement{client: string(name), local: l, body: bytes.Clone(body), text: bytes.IndexByte(body, 0), verdict: l.verdict()}
	o := owed{typ: wire.Parse, st: st, scope: namedScope, undoes: true, name: st.client, was: s.statement(name)}
	if len(name) == 0 {
		o.scope = unnamedScope
	}
	s.define(st.client, st)
	s.answerHere(o, run)
	return total
}

// answerHere has a message answered here, in its place among the server's answers.
func (s *Session) answerHere(o owed, run *forwarding) {
	o.how = made
	s.place(run)
	s.owed.sent(o)
}

// place sees to it that what is answered here comes in its place. How many answers to
// Syncs come before it is not known if the server is or may be copying in: that shows
// once it has answered something behind them.
func (s *Session) place(run *forwarding) {
	if s.owed.unsure > 0 || s.at == PrimarySlot && s.owed.syncs > 0 {
		s.owed.sent(owed{typ: wire.Close, how: hide})
		run.build(func(b []byte) []byte { return appendTarget(b, wire.Close, noStatement) })
	}
}

// closePortal closes the unnamed portal on the server, unseen.
func (s *Session) closePortal(run *forwarding) {
	s.owed.sent(owed{typ: wire.Close, how: hide})
	run.build(func(b []byte) []byte { return append(b, wire.Close, 0, 0, 0, 6, 'P', 0) })
}

// execute translates a whole Execute. Behind one that forgets all prepared
// statements on the server, it is to be known first that it has.
func (s *Session) execute(total int, rest, all []byte, at int, run *forwarding) int {
	name, _, ok := cutString(rest[wire.HeaderSize:total])
	if here := s.here.find(name); ok && here != nil {
		return s.executeHere(here, limitOf(rest[wire.HeaderSize+len(name)+1:total]), total, run)
	}
	o := owed{typ: wire.Execute}
	if ok && s.latest.is(name) {
		o.copies = s.latest.st.copies
	}
	if ok && s.latest.is(name) && !s.latest.ran {
		o.cmds, s.latest.ran = s.latest.cmds, true
		s.sets(o.cmds) // that was noted when it was bound: perhaps in an earlier sequence
		o.prepares(s.names(s.latest.st.looked(), &s.latest.st.verdict))
		if name := s.latest.st.drops; name != "" {
			o.drops([]string{name})
		}
	}
	n := s.pass(&o, total, rest, all, at, run)
	if ok && s.mayForget(name) {
		run.build(func(b []byte) []byte { return append(b, wire.Flush, 0, 0, 0, 4) })
		s.forgetting = true
		return n + s.wait()
	}
	return n
}

// mayForget reports whether a portal of the server's may run what removes all prepared
// statements.
func (s *Session) mayForget(name []byte) bool {
	if s.latest.is(name) {
		return s.latest.st.forgets
	}
	return s.forgetful
}

// limitOf reads the end of an Execute: how many rows it asks for, 0 for all.
func limitOf(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// executeHere executes one in its place in the sequence.
func (s *Session) executeHere(p *portal, limit uint32, total int, run *forwarding) int {
	switch {
	case s.owed.syncs > 0: // it may have ended with its transaction
		return s.wait()
	case s.awaitsEnd(run), s.awaitsPortals(run):
		return 0
	case s.failing():
		s.fail(run, &aborted)
		return total
	}
	l := &p.st.local
	problem := s.checkExecute(p)
	if problem == &unbounded {
		if s.awaitsTunes(run) {
			return 0
		}
		problem = s.checkExecute(p)
	}
	if problem != nil {
		s.fail(run, problem)
		return total
	}
	o := owed{typ: wire.Execute, st: p.st, scope: namedScope, part: p.next(limit)}
	switch l.kind {
	case ownParameter:
		o.scope, o.name = none, string(p.name) // of the portal
		s.retunes = s.retunes || !l.shows()
		o.warns = s.warnsOfLocal(l, s.owed.executed)
	case deallocate:
		st := s.named[l.name]
		if st == nil {
			s.fail(run, unknown(l.name))
			return total
		}
		o.undoes, o.name, o.was = true, l.name, st
		s.closeRaw(st, run)
		s.define(l.name, nil)
	default:
		for _, name := range slices.Sorted(maps.Keys(s.named)) {
			s.closeRaw(s.named[name], run)
		}
		o.more = &further{all: s.named}
		if s.named == nil {
			o.more.all = map[string]*Statement{}
		}
		s.named = nil
	}
	s.answerHere(o, run)
	return total
}

// closeRaw closes, unseen, a statement that only the connection has. When DEALLOCATE was
// prepared here the name may have stood for one that the router knows.
func (s *Session) closeRaw(st *Statement, run *forwarding) {
	if st.raw && !st.sql {
		s.owed.sent(owed{typ: wire.Close, how: hide})
		run.build(func(b []byte) []byte { return appendTarget(b, wire.Close, st.client) })
	}
}

// failing reports whether the transaction has failed in which the next message runs.
func (s *Session) failing() bool { return s.status == wire.Failed && !s.recovered }

// awaitsEnd has the message at the head wait, where a transaction has failed, for what is
// in front of it in its sequence: that may end the transaction.
func (s *Session) awaitsEnd(run *forwarding) bool {
	if !s.failing() || !slices.ContainsFunc(s.owed.all(), func(o owed) bool { return o.how != made }) {
		return false
	}
	s.awaitAnswers(run)
	return true
}

// awaitsTunes executes what is in front of the message at the head of the router's own
// parameters, on which it may depend, and has it wait where their turn has not come.
func (s *Session) awaitsTunes(run *forwarding) bool {
	s.emitMade()
	if !slices.ContainsFunc(s.owed.all(), func(o owed) bool {
		return o.how == made && o.typ == wire.Execute && o.st.local.kind == ownParameter && !o.st.local.shows()
	}) {
		return false
	}
	s.awaitAnswers(run)
	return true
}

// awaitAnswers has the message at the head wait for the answers to what is in front of it.
func (s *Session) awaitAnswers(run *forwarding) {
	if s.owed.syncs == 0 {
		run.build(func(b []byte) []byte { return append(b, wire.Flush, 0, 0, 0, 4) })
		s.forgetting = true
	}
	s.wait()
}

// emitMade answers what needs no server, once its turn has come: not in the middle of a
// message of the server.
func (s *Session) emitMade() {
	if s.fromServer > 0 {
		return
	}
	from := len(s.scratch)
	for o := s.owed.front(); o.how == made; o = s.owed.front() {
		switch o.typ {
		case wire.Parse:
			s.scratch = append(s.scratch, wire.ParseComplete, 0, 0, 0, 4)
		case wire.Bind:
			s.scratch = append(s.scratch, wire.BindComplete, 0, 0, 0, 4)
		case wire.Describe:
			s.describeHere(o.st, o.portal)
		case wire.Execute:
			s.runHere(&o.st.local, o.part, o.warns)
		case wire.Close:
			s.scratch = append(s.scratch, wire.CloseComplete, 0, 0, 0, 4)
		}
		s.owed.pop()
	}
	if len(s.scratch) > from {
		s.begunToShow()
		s.toClient(from)
	}
}

// describeHere describes a statement, or a portal that runs it.
func (s *Session) describeHere(st *Statement, portal bool) {
	if !portal {
		declared := st.body[st.text+1:]
		s.scratch = append(s.scratch, wire.ParameterDescription)
		s.scratch = binary.BigEndian.AppendUint32(s.scratch, uint32(4+len(declared)))
		s.scratch = append(s.scratch, declared...)
	}
	if l := &st.local; l.shows() {
		s.describeShow(l.own.Name, l.formats)
		return
	}
	s.scratch = append(s.scratch, wire.NoData, 0, 0, 0, 4)
}

// runHere executes one whose turn has come and shows what it gives, and before that, if
// warns says so, what a server says of SET LOCAL where there is no transaction block.
func (s *Session) runHere(l *local, give portion, warns bool) {
	if warns {
		s.warnOfLocal()
	}
	if l.kind == ownParameter {
		if l.shows() && give != noRow {
			s.rowOfShow(l.own.Name, l.formats)
		}
		s.runOwn(l.own)
	}
	if l.shows() && give == limitedRow {
		s.scratch = append(s.scratch, wire.PortalSuspended, 0, 0, 0, 4)
		return
	}
	s.scratch = appendTag(s.scratch, l)
}

// appendTag adds the CommandComplete of a statement executed here.
func appendTag(b []byte, l *local) []byte {
	if l.kind == ownParameter {
		return appendComplete(b, l.own.Verb.Tag())
	}
	return appendComplete(b, [...]string{deallocate: "DEALLOCATE", deallocateAll: "DEALLOCATE ALL", discardAll: "DISCARD ALL"}[l.kind])
}

// appendComplete adds a CommandComplete.
func appendComplete(b []byte, tag string) []byte {
	b = append(b, wire.CommandComplete, 0, 0, 0, byte(4+len(tag)+1))
	return append(append(b, tag...), 0)
}
