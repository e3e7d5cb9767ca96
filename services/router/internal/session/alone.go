package session

import (
	"bytes"
	"fmt"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// A sequence of the extended protocol that is about nothing but the router's own
// parameters is answered without a server, unless a transaction of the session is on the
// primary, which has to fail with it. So is, in a transaction, one that forgets prepared
// statements. Among other messages, such statements are executed in their place, while a
// connection executes the others (local.go).

// isOwn reports whether a statement is about the router's parameters.
func (s *Session) isOwn(st *Statement) bool { return st != nil && st.local.kind == ownParameter }

// isHere reports whether it is a statement that the router executes.
func (s *Statement) isHere() bool { return s != nil && s.local.kind != notLocal }

// answers reports whether a statement that the router executes needs no server where it is
// alone. Outside of a transaction those that forget statements go the way of writes.
func (s *Session) answers(l *local) bool {
	return l.kind == ownParameter || s.status != wire.Idle && s.pins == 0 && s.executes(l)
}

// unattended reports whether no server has to hear of what becomes of a sequence that is
// executed here: there is no transaction, or none that is kept on its server when it fails.
func (s *Session) unattended() bool { return !s.inTransaction() || s.block.replica }

// countsAsNone reports whether the request at the head is a sequence that the router
// executes, which its server only has to be in step with.
func (s *Session) countsAsNone() bool {
	return s.seq.scanned > 0 && s.seq.whole && s.seq.own && !s.seq.others
}

// alone reports whether no message of the sequence at the head needs a server.
func (s *Session) alone(seq []byte) bool {
	q := &s.seq
	if !q.own || !q.whole || !s.unattended() || s.owed.unsure > 0 {
		return false
	}
	bound := map[string]bool{} // the portals
	for at := 0; at < len(seq); {
		typ, total, err := wire.Header(seq[at:])
		if err != nil || total == 0 || total > len(seq)-at {
			return false
		}
		msg := seq[at : at+total]
		ok := false
		switch typ {
		case wire.Parse:
			_, text, types, whole := splitParse(msg)
			l, local := s.localOf(text)
			ok = whole && local && s.answers(&l) && len(types) == 0
		case wire.Bind:
			var portal, name []byte
			portal, name, _, ok = splitBind(msg)
			ok = ok && s.ownAt(seq, name, at)
			bound[string(portal)] = true
		case wire.Execute:
			name, _, whole := cutString(msg[wire.HeaderSize:])
			ok = whole && (bound[string(name)] || s.here.find(name) != nil)
		case wire.Describe, wire.Close:
			kind, name, whole := splitTarget(msg)
			ok = whole && (kind == 'S' && s.ownAt(seq, name, at) || kind == 'P' && (bound[string(name)] || s.here.find(name) != nil))
		case wire.Sync:
			ok = true
		}
		if !ok {
			return false
		}
		at += total
	}
	return true
}

// ownAt reports whether a statement needs no server that the client names at this place of
// a sequence, in which all that are parsed are such.
func (s *Session) ownAt(seq, name []byte, at int) bool {
	if s.seq.defines(seq, name, at) {
		return true
	}
	st := s.statement(name)
	return st.isHere() && st.parameters() == 0 && s.answers(&st.local)
}

// answerAlone executes the sequence and returns its length.
func (s *Session) answerAlone(seq []byte) int {
	s.seq.scanned = 0
	from := len(s.scratch)
	failed, executed := false, false
	for b := seq; len(b) > 0; {
		typ, total, _ := wire.Header(b)
		msg := b[:total]
		b = b[total:]
		if typ == wire.Sync || failed {
			continue
		}
		if p := s.messageAlone(typ, msg, executed); p != nil {
			failed = true
			s.set.Failed()
			s.fallHere()
			s.encodeProblem(p)
		}
		executed = executed || typ == wire.Execute
	}
	if s.status == wire.Idle {
		s.here = nil // portals end with their transaction
	}
	s.token = tokenWait{} // what was waited for need not have been executed
	s.endOwn()
	s.scratch = wire.AppendReadyForQuery(s.scratch, s.status)
	s.toClient(from)
	s.idle()
	return len(seq)
}

// messageAlone executes one message. executed says that there was an Execute before it.
func (s *Session) messageAlone(typ byte, msg []byte, executed bool) *Problem {
	switch typ {
	case wire.Parse:
		name, text, _, _ := splitParse(msg)
		l, _ := s.localOf(text)
		if len(name) == 0 {
			s.unnamed = nil
		} else if s.statement(name) != nil {
			return &Problem{Code: takenName, Message: "prepared statement " + quoted(string(name)) + " already exists"}
		}
		if s.failing() {
			return &aborted
		}
		if p := s.parsedOwn(&l); p != nil {
			return p
		}
		body := bytes.Clone(msg[wire.HeaderSize+len(name)+1:])
		s.define(string(name), &Statement{client: string(name), local: l, body: body, text: len(text), verdict: l.verdict()})
		s.scratch = append(s.scratch, wire.ParseComplete, 0, 0, 0, 4)
	case wire.Bind:
		portal, name, _, _ := splitBind(msg)
		st := s.statement(name)
		if st == nil {
			return unknown(string(name))
		}
		given := readBinding(msg)
		p := given.checkParameters(st)
		switch {
		case p != nil:
		case s.failing():
			p = &aborted
		default:
			if p = s.checkBind(portal); p == nil {
				p = s.checkFormats(st, &given)
			}
		}
		if p != nil {
			return p
		}
		s.replaces(portal)
		s.binds(portal, st.formatted(given.results), nil)
		s.scratch = append(s.scratch, wire.BindComplete, 0, 0, 0, 4)
	case wire.Describe:
		kind, name, _ := splitTarget(msg)
		var st *Statement
		if kind == 'S' {
			st = s.statement(name)
		} else if p := s.here.find(name); p != nil {
			st = p.st
		}
		if st == nil {
			return absent(kind, name)
		}
		if s.failing() && st.local.shows() {
			return &aborted
		}
		s.describeHere(st, kind == 'P')
	case wire.Execute:
		name, rest, _ := cutString(msg[wire.HeaderSize:])
		p := s.here.find(name)
		if p == nil {
			return absent('P', name)
		}
		if s.failing() {
			return &aborted
		}
		if problem := s.checkExecute(p); problem != nil {
			return problem
		}
		l := &p.st.local
		switch {
		case l.kind == ownParameter:
		case l.forgets():
			s.named = nil
		case s.named[l.name] == nil:
			return unknown(l.name)
		default:
			s.define(l.name, nil)
		}
		s.runHere(l, p.next(limitOf(rest)), s.warnsOfLocal(l, executed))
	case wire.Close:
		kind, name, _ := splitTarget(msg)
		if kind == 'S' {
			s.define(string(name), nil)
		} else {
			s.replaces(name)
			s.here.close(name)
		}
		s.scratch = append(s.scratch, wire.CloseComplete, 0, 0, 0, 4)
	}
	return nil
}

// replaces notes that the server's portal of that name, if it is the unnamed one, is the
// client's no longer: there is nothing else that it may know of and has not been told.
func (s *Session) replaces(portal []byte) {
	if len(portal) == 0 {
		s.block.portal = false
		s.stale = s.stale || s.inTransaction()
	}
}

// absent is the server's error for a statement or a portal that is not there.
func absent(kind byte, name []byte) *Problem {
	if kind == 'S' {
		return unknown(string(name))
	}
	return &Problem{Code: "34000", Message: "portal " + quoted(string(name)) + " does not exist"}
}

// checkExecute gives the error of executing a portal, again if it has been executed.
func (s *Session) checkExecute(p *portal) *Problem {
	l := &p.st.local
	switch {
	case p.ran && !l.shows():
		return ranAlready(p.name)
	case p.ran:
		return nil // there is no more
	case l.kind != ownParameter:
		return nil
	}
	if problem := s.checkOwn(l.own); problem != nil {
		return problem
	}
	for _, f := range l.formats {
		if f != 0 && f != binaryFormat {
			return &Problem{Code: "22023", Message: fmt.Sprintf("unsupported format code: %d", f)}
		}
	}
	return nil
}

// warnsOfLocal reports whether a server would warn that a SET LOCAL does nothing. From
// release 18 on, what has been executed before it in its sequence is a transaction block
// with it ("Message Flow: Pipelining").
func (s *Session) warnsOfLocal(l *local, executed bool) bool {
	return l.kind == ownParameter && l.own.Local && s.status == wire.Idle && !s.opaque && !(executed && s.major() >= 18)
}

// warnOfLocal says so.
func (s *Session) warnOfLocal() {
	s.encodeWarning("25P01", "SET LOCAL can only be used in transaction blocks", "")
}

// ranAlready is the server's error for a portal that can be executed only once.
func ranAlready(name []byte) *Problem {
	return &Problem{Code: "55000", Message: "portal " + quoted(string(name)) + " cannot be run"}
}
