package session

import (
	"encoding/binary"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// In the middle of a sequence a connection is equipped by messages of the same sequence, whose
// answers nobody is shown: if one of them fails, so does what needs it.

// equipInside prepares a statement in the middle of a sequence. If the server
// refuses, the message that needs it is discarded with the others up to Sync.
func (s *Session) equipInside(st *Statement, run *forwarding) {
	s.loseInside(st.client, run)
	if st.sql {
		s.inside(run, string(st.body[:st.text]), owed{more: &further{gives: st.client}})
	} else {
		s.owed.sent(owed{typ: wire.Parse, how: hide, more: &further{gives: st.client}})
		run.build(func(b []byte) []byte { return appendParse(b, st.client, st.bodyThere()) })
	}
	s.held[s.at].statements.prepare(st.client, underName{st.there(), s.origin()})
}

// loseInside has the connection lose what it has under a name, if anything, in the middle
// of a sequence.
func (s *Session) loseInside(name string, run *forwarding) {
	t := s.held[s.at].statements
	had, ok := t.sql[name]
	switch {
	case !ok && t.held[name] != nil:
		delete(t.held, name)
		s.closeHidden(run, name)
		return
	case !ok:
		return
	}
	delete(t.sql, name)
	s.owed.sent(owed{typ: wire.Close, how: hide, more: &further{gives: name, had: &had}})
	run.build(func(b []byte) []byte { return appendTarget(b, wire.Close, name) })
}

// makeWay has the connection in use not have what it was given under a name that stands for
// nothing, and is about to.
func (s *Session) makeWay(name string, run *forwarding) {
	if s.named[name] == nil {
		s.loseInside(name, run)
	}
}

// vacate has the connection in use not have, under the name that a statement is to have there,
// what was prepared with SQL.
func (s *Session) vacate(st *Statement, run *forwarding) {
	if len(s.held[s.at].statements.sql) > 0 {
		s.loseInside(st.server, run)
	}
}

// supply gives the connection in use what a statement that is about to be bound or
// described names.
func (s *Session) supply(st *Statement, run *forwarding) {
	if !s.failing() {
		for _, u := range firsts(s.usesOfParsed(st.looked(), &st.verdict)) {
			s.supplyUse(u, run)
		}
	}
}

// supplyParse does so for what is about to be parsed: how an EXECUTE is described is settled
// then.
func (s *Session) supplyParse(text []byte, v *verdict.Verdict, run *forwarding) {
	if s.failing() {
		return
	}
	for _, u := range firsts(s.usesOfParsed(text, v)) {
		if u.verb == toExecute {
			s.supplyUse(u, run)
		}
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
