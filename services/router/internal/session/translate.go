package session

import (
	"bytes"
	"encoding/binary"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// Messages of the extended protocol are translated on their way: statements have
// other names on servers than the client gave them, and one that a connection
// does not hold is parsed there first (prepare.go).

// maxName is the longest name that is translated, in bytes. A statement with a
// longer one lives on its connection.
const maxName = 4 << 10

// Errors in the place of which the server is made to fail.
var (
	changedResult = Problem{Code: "0A000", Message: "cached plan must not change result type", File: "plancache.c", Routine: "RevalidateCachedQuery"}
	aborted       = Problem{Code: "25P02", Message: "current transaction is aborted, commands ignored until end of transaction block"}
)

// unknown is the server's error for a statement that it does not have.
func unknown(name string) *Problem {
	if name == "" {
		return &Problem{Code: "26000", Message: "unnamed prepared statement does not exist"}
	}
	return &Problem{Code: "26000", Message: "prepared statement " + quoted(name) + " does not exist"}
}

// quoted writes a name as the server's messages do.
func quoted(name string) string { return `"` + name + `"` }

// stream translates one message at the start of rest, of which more may be to
// come, and returns how many of its bytes are used: none if it must wait.
func (s *Session) stream(typ byte, total int, rest, all []byte, at int, run *forwarding) int {
	whole := len(rest) >= total
	if s.stale && !s.owed.skipping {
		s.stale = false
		s.closePortal(run)
	}
	switch {
	case s.owed.skipping && typ != wire.Sync:
		return s.drop(total, rest) // as the server does
	case (s.sweeps || s.block.unsure) && typ != wire.Sync && !s.owed.open && !s.owed.empty():
		return s.wait() // until it is known which statements are left, and that BEGIN has not failed
	case s.owed.prepares > 0 && s.awaitsPrepare(typ, rest[:min(total, len(rest))], run):
		return 0
	case typ == wire.Parse && total-wire.HeaderSize > s.env.Settings().MaxText:
		return s.parseBlindly(total, rest, all, at, run)
	case !whole && (typ == wire.Parse || total <= maxHeld && (typ == wire.Describe || typ == wire.Execute || typ == wire.Close)):
		return 0
	case typ == wire.Parse:
		return s.parse(rest[:total], all, at, run)
	case typ == wire.Bind:
		return s.bindMessage(total, rest, all, at, run)
	case typ == wire.Describe && whole:
		return s.describe(rest[:total], all, at, run)
	case typ == wire.Close && whole:
		return s.closeMessage(rest[:total], all, at, run)
	case typ == wire.Execute && whole:
		return s.execute(total, rest, all, at, run)
	case typ == wire.Sync:
		s.seq.next = len(s.seq.parses)
	}
	return s.pass(&owed{typ: typ}, total, rest, all, at, run)
}

// wait has the message at the head wait for the sequences before its own.
func (s *Session) wait() int {
	s.blocked = true
	return 0
}

// pass forwards a message as it is.
func (s *Session) pass(o *owed, total int, rest, all []byte, at int, run *forwarding) int {
	n := s.take(total, rest)
	s.owed.add(o)
	run.add(all, at, n)
	return n
}

// parse translates a whole Parse.
func (s *Session) parse(msg, all []byte, at int, run *forwarding) int {
	name, text, types, ok := splitParse(msg)
	switch {
	case !ok:
		s.seq.parsed()
		return s.pass(&owed{typ: wire.Parse}, len(msg), msg, all, at, run) // the server says what is wrong
	case len(name) > maxName:
		return s.parseBlindly(len(msg), msg, all, at, run)
	case len(name) > 0 && s.owed.unsettled(namedScope), s.usesInDoubt(text):
		return s.wait()
	}
	body := msg[wire.HeaderSize+len(name)+1:]
	if st := s.named[string(name)]; st != nil && (!st.raw || st.sql) {
		return s.parseTaken(st.client, body, len(msg), run)
	}
	var l local
	repeated := s.repeats(name, body)
	if !repeated {
		if l, ok = s.localOf(text); ok && s.executes(&l) {
			return s.parseHere(name, body, l, len(msg), run)
		}
	}
	asked := s.known
	v, ok := s.verdictOfParse(text, types, repeated)
	switch {
	case !ok:
		return 0
	case asked && s.interrupted && s.owed.empty(): // nothing ran that could be canceled
		s.failParse(run, &canceled, name)
		return len(msg)
	}
	held := s.held[s.at].statements
	s.supplyParse(text, &v, run)
	if len(name) == 0 {
		st := s.spare
		if st == nil {
			st = &Statement{}
		}
		s.spare = nil
		st.set(body, len(text), s.unnamed, s.environment())
		if repeated {
			st.verdict, st.hintless = v, true
		} else {
			s.learn(st, text, v, &l)
		}
		held.add(st, s.bears(st))
		o := owed{typ: wire.Parse, st: st, scope: unnamedScope, undoes: true, was: s.unnamed}
		s.unnamed = st
		return s.pass(&o, len(msg), msg, all, at, run)
	}
	if st := s.named[string(name)]; st != nil { // the server says that it is there
		return s.pass(&owed{typ: wire.Parse}, len(msg), msg, all, at, run)
	}
	st := &Statement{}
	st.set(body, len(text), nil, s.environment())
	s.learn(st, text, v, &l)
	st.name(string(name))
	o := owed{typ: wire.Parse, st: st, scope: namedScope, undoes: true, name: st.client}
	if held.find(st) == nil {
		s.vacate(st, run)
		s.makeRoom(run, held)
	} else {
		// What another client has had parsed may be older than a change of what it names:
		// its types stay what they were, and PostgreSQL refuses a result of another shape.
		s.closeHidden(run, st.server)
	}
	s.define(st.client, st)
	s.owed.sent(o)
	held.add(st, s.bears(st))
	run.build(func(b []byte) []byte { return appendParse(b, st.server, body) })
	return len(msg)
}

// learn notes what is known of a statement that a server is to parse by its text, which l is
// if the router could execute it.
func (s *Session) learn(st *Statement, text []byte, v verdict.Verdict, l *local) {
	st.verdict, st.cmds, st.hint, st.hintless = v, s.commands(text, v), s.hintsOf(text), !sqltoken.MayHint(text)
	st.forgets, st.drops, st.copies = l.forgets(), l.name, v.Kind != verdict.Read && mayCopyIn(text)
}

// rollback is the body of a statement that can be parsed whatever has happened.
var rollback = []byte("ROLLBACK\x00\x00\x00")

// parseBlindly forwards a Parse whose text is not looked into, nor kept: the
// statement lives on this connection, and so does the session from now on.
func (s *Session) parseBlindly(total int, rest, all []byte, at int, run *forwarding) int {
	name, _, ok := cutString(rest[min(wire.HeaderSize, len(rest)):min(total, len(rest))])
	scope := namedScope
	switch {
	case !ok && len(rest) < total && len(rest) < maxHeld:
		return 0
	case ok && len(name) == 0:
		scope = unnamedScope
	case s.owed.unsettled(namedScope):
		return s.wait()
	}
	if st := s.named[string(name)]; ok && st != nil && (!st.raw || st.sql) {
		return s.parseTakenBlindly(st.client, len(name), total, rest, all, at, run)
	}
	s.seq.parsed()
	s.bind(pinExtended)
	s.effects(unlooked(), nil, nil)
	o := owed{typ: wire.Parse}
	if ok {
		st := newRaw(string(name))
		s.makeWay(st.client, run)
		if scope == unnamedScope {
			s.held[s.at].statements.dropUnnamed()
		}
		o = owed{typ: wire.Parse, st: st, scope: scope, undoes: true, name: st.client, was: s.statement(name)}
		s.define(st.client, st)
	}
	return s.pass(&o, total, rest, all, at, run)
}

// bindMessage translates a Bind, which may be of any length.
func (s *Session) bindMessage(total int, rest, all []byte, at int, run *forwarding) int {
	portal, name, tail, ok := splitBind(rest[:min(total, len(rest))])
	if !ok && len(rest) < total && len(rest) < maxHeld {
		return 0
	}
	if ok && s.inDoubt(name) {
		return s.wait()
	}
	var st *Statement
	if ok {
		st = s.statement(name)
	}
	switch {
	case st != nil && s.usesInDoubt(st.looked()):
		return s.wait()
	case st == nil && ok && s.nowhere(name):
		s.fail(run, unknown(string(name)))
		return s.drop(total, rest)
	case st == nil:
		s.binds(portal, nil, nil)
		s.effects(verdict.Unclassified(), nil, nil) // something prepared with SQL, if it is there
		return s.pass(&owed{typ: wire.Bind}, total, rest, all, at, run)
	case st.local.kind != notLocal:
		return s.bindHere(st, portal, total, rest, all, at, run)
	case s.unequipped(st) && s.awaitsEnd(run):
		return 0
	case s.unequipped(st) && s.failing():
		s.fail(run, &aborted)
		return s.drop(total, rest)
	case s.awaitsBind(st, total, len(rest)):
		return 0
	case len(portal) > 0 && s.here.find(portal) != nil && s.owed.syncs > 0:
		return s.wait() // it may have ended with its transaction
	case len(portal) > 0 && s.here.find(portal) != nil && s.awaitsPortals(run):
		return 0
	case len(portal) > 0 && s.here.find(portal) != nil && !s.failing():
		s.fail(run, nameTaken(portal))
		return s.drop(total, rest)
	}
	if p := s.refusedBind(st, rest[:min(total, len(rest))]); p != nil {
		s.fail(run, p)
		return s.drop(total, rest)
	}
	if s.supply(st, run); !st.raw && !s.prepared(st, true, run) {
		return 0
	}
	if s.unequipped(st) {
		s.equipInside(st, run)
	}
	cmds, v := s.bindings(st, rest[:min(total, len(rest))])
	s.effects(v, cmds, st.looked())
	s.binds(portal, st, cmds)
	o := owed{typ: wire.Bind, st: st}
	if st.raw || st.server == "" {
		return s.pass(&o, total, rest, all, at, run)
	}
	s.owed.sent(o)
	n := min(total, len(rest))
	head := n - len(tail) // up to the parameters
	run.build(func(b []byte) []byte {
		b = append(b, wire.Bind)
		b = binary.BigEndian.AppendUint32(b, uint32(total-1+len(st.server)-len(name)))
		b = append(append(b, portal...), 0)
		return append(append(b, st.server...), 0)
	})
	s.take(total, rest)
	run.add(all, at+head, n-head)
	return n
}

// inDoubt reports whether a sequence before the open one decides what the client's
// name stands for.
func (s *Session) inDoubt(name []byte) bool {
	if len(name) > 0 {
		return s.owed.unsettled(namedScope)
	}
	return s.owed.openChanges[unnamedScope] == 0 && s.owed.unsettled(unnamedScope)
}

// nowhere reports whether a name that the client has not given to a statement has
// none on the server either that may be the client's: one prepared with SQL, which
// leaves its trace. What is there may be another session's, and must not be run.
func (s *Session) nowhere(name []byte) bool {
	if _, ok := s.held[s.at].statements.sql[string(name)]; ok {
		return true // it was the client's, or is another's
	}
	return len(name) == 0 || bytes.HasPrefix(name, []byte(serverPrefix)) || s.pins == 0 && !s.held[s.at].used
}
