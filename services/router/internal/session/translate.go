package session

import (
	"encoding/binary"
	"strconv"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// Messages of the extended protocol are translated on their way: statements have
// other names on servers than the client gave them, and one that a connection
// does not hold is parsed there first (prepare.go).

// undo is how the client's statements were before a message changed them.
type undo struct {
	name string
	was  *Statement // nil: there was none
}

// statement gives what the client has prepared under a name; nil for nothing.
func (s *Session) statement(name []byte) *Statement {
	if len(name) == 0 {
		if !s.hasUnnamed {
			return nil
		}
		return &s.unnamed
	}
	return s.named[string(name)]
}

// stream translates one message at the start of rest, of which more may be to
// come, and returns how many of its bytes are used: none if it must wait.
func (s *Session) stream(typ byte, total int, rest, all []byte, at int, run *forwarding) int {
	whole := len(rest) >= total
	switch {
	case s.owed.skipping && typ != wire.Sync:
		return s.drop(total, rest) // as the server does
	case typ == wire.Parse && (whole || total-wire.HeaderSize <= s.env.Settings().MaxText):
		if !whole {
			return 0
		}
		return s.parse(rest[:total], all, at, run)
	case typ == wire.Parse:
		// Its text is not looked into, nor kept: the statement lives on this connection,
		// and so does the session from now on.
		s.bind(PinExtended)
		s.effects(unlooked())
	case typ == wire.Bind:
		return s.bindMessage(total, rest, all, at, run)
	case (typ == wire.Describe || typ == wire.Close) && !whole && total <= maxHeld:
		return 0
	case typ == wire.Describe && whole:
		return s.describe(rest[:total], all, at, run)
	case typ == wire.Close && whole:
		return s.closeMessage(rest[:total], all, at, run)
	}
	return s.pass(owed{typ: typ}, total, rest, all, at, run)
}

// pass forwards a message as it is.
func (s *Session) pass(o owed, total int, rest, all []byte, at int, run *forwarding) int {
	n := s.take(total, rest)
	s.owed.sent(o)
	run.add(all, at, n)
	return n
}

// parse translates a whole Parse.
func (s *Session) parse(msg, all []byte, at int, run *forwarding) int {
	name, text, types, ok := splitParse(msg)
	if !ok {
		return s.pass(owed{typ: wire.Parse}, len(msg), msg, all, at, run) // the server says what is wrong
	}
	v := s.verdictOfParse(text)
	held := s.held[s.at].statements
	if len(name) == 0 {
		s.hasUnnamed = true
		s.unnamed.set(text, types, v)
		held.add(&s.unnamed)
		return s.pass(owed{typ: wire.Parse, st: &s.unnamed}, len(msg), msg, all, at, run)
	}
	if s.named[string(name)] != nil {
		s.fail(run, &Problem{Code: "42P05", Message: "prepared statement " + strconv.Quote(string(name)) + " already exists"})
		return len(msg)
	}
	st := &Statement{}
	st.set(text, types, v)
	st.name()
	s.define(string(name), st)
	o := owed{typ: wire.Parse, st: st, undo: &undo{name: string(name)}}
	if held.find(st) != nil {
		o.how = made
		s.owed.sent(o)
		return len(msg)
	}
	s.makeRoom(run, held)
	held.add(st)
	s.owed.sent(o)
	run.build(func(b []byte) []byte { return appendParse(b, st) })
	return len(msg)
}

// verdictOfParse gives the verdict on the Parse that is being sent. Most have
// been looked at before; one that arrives in the middle of a sequence and that
// nobody has judged may do anything.
func (s *Session) verdictOfParse(text []byte) verdict.Verdict {
	if q := &s.seq; q.next < len(q.parses) {
		q.next++
		return q.parses[q.next-1].verdict
	}
	if len(text) <= s.env.Settings().MaxText {
		if v, ok := s.env.Verdict(s, text); ok {
			return v
		}
	}
	return unlooked()
}

// define notes a statement under the client's name; nil removes it.
func (s *Session) define(name string, st *Statement) {
	if st == nil {
		delete(s.named, name)
		return
	}
	if s.named == nil {
		s.named = map[string]*Statement{}
	}
	s.named[name] = st
}

// bindMessage translates a Bind, which may be of any length.
func (s *Session) bindMessage(total int, rest, all []byte, at int, run *forwarding) int {
	_, name, tail, ok := splitBind(rest[:min(total, len(rest))])
	if !ok {
		if len(rest) < total && len(rest) < maxHeld {
			return 0
		}
		return s.pass(owed{typ: wire.Bind}, total, rest, all, at, run)
	}
	st := s.statement(name)
	if st == nil {
		return s.pass(owed{typ: wire.Bind}, total, rest, all, at, run)
	}
	if !s.prepared(st, run) {
		return 0
	}
	s.effects(st.verdict)
	if st.server == "" {
		return s.pass(owed{typ: wire.Bind}, total, rest, all, at, run)
	}
	s.owed.sent(owed{typ: wire.Bind})
	head := len(rest) - len(tail) // up to the parameters
	if len(rest) > total {
		head = total - len(tail)
	}
	portal := rest[wire.HeaderSize : head-len(name)-1]
	run.build(func(b []byte) []byte {
		b = append(b, wire.Bind)
		b = binary.BigEndian.AppendUint32(b, uint32(total-1+len(st.server)-len(name)))
		b = append(b, portal...)
		b = append(b, st.server...)
		return append(b, 0)
	})
	n := min(total, len(rest))
	s.fromClient, s.discard = total-n, false
	run.add(all, at+head, n-head)
	return n
}

// describe translates a whole Describe.
func (s *Session) describe(msg, all []byte, at int, run *forwarding) int {
	kind, name, ok := splitTarget(msg)
	if !ok || kind != 'S' {
		return s.pass(owed{typ: wire.Describe}, len(msg), msg, all, at, run)
	}
	st := s.statement(name)
	if st == nil {
		return s.pass(owed{typ: wire.Describe}, len(msg), msg, all, at, run)
	}
	if !s.prepared(st, run) {
		return 0
	}
	o := owed{typ: wire.Describe, st: st}
	if st.server == "" {
		return s.pass(o, len(msg), msg, all, at, run)
	}
	s.owed.sent(o)
	run.build(func(b []byte) []byte { return appendTarget(b, wire.Describe, st.server) })
	return len(msg)
}

// closeMessage translates a whole Close. A statement is closed for this client
// only: others may use it.
func (s *Session) closeMessage(msg, all []byte, at int, run *forwarding) int {
	kind, name, ok := splitTarget(msg)
	if !ok || kind != 'S' {
		return s.pass(owed{typ: wire.Close}, len(msg), msg, all, at, run)
	}
	if len(name) == 0 {
		s.hasUnnamed = false
		s.held[s.at].statements.dropUnnamed()
		return s.pass(owed{typ: wire.Close}, len(msg), msg, all, at, run)
	}
	st := s.named[string(name)]
	if st == nil {
		return s.pass(owed{typ: wire.Close}, len(msg), msg, all, at, run)
	}
	s.define(string(name), nil)
	s.owed.sent(owed{typ: wire.Close, how: made, undo: &undo{string(name), st}})
	return len(msg)
}

// effects notes what a statement that is about to be sent may do, before its
// first byte is forwarded.
func (s *Session) effects(v verdict.Verdict) {
	h := &s.held[s.at]
	if v.Kind != verdict.Read {
		s.write(h)
	}
	if v.Effects.Has(verdict.Session) {
		s.bind(PinSession)
	}
	if v.Effects&(verdict.Session|verdict.Unproven) != 0 {
		h.used = true
	}
}

// takeBack undoes what messages did to the client's statements that the server
// has discarded, the failed one first.
func (s *Session) takeBack(dropped []owed) {
	held := s.held[s.at].statements // nil if the connection is gone
	for i := len(dropped) - 1; i >= 0; i-- {
		o := &dropped[i]
		if o.undo != nil {
			s.define(o.undo.name, o.undo.was)
		}
		if o.typ == wire.Parse && o.how != made && o.st != nil {
			if held != nil {
				held.remove(o.st)
			}
			if o.st == &s.unnamed {
				s.hasUnnamed = false
			}
		}
		*o = owed{}
	}
}

func appendParse(b []byte, st *Statement) []byte {
	b = append(b, wire.Parse)
	b = binary.BigEndian.AppendUint32(b, uint32(4+len(st.server)+1+len(st.text)+1+len(st.types)))
	b = append(append(b, st.server...), 0)
	b = append(append(b, st.text...), 0)
	return append(b, st.types...)
}

func appendTarget(b []byte, typ byte, name string) []byte {
	b = append(b, typ)
	b = binary.BigEndian.AppendUint32(b, uint32(4+1+len(name)+1))
	b = append(b, 'S')
	return append(append(b, name...), 0)
}
