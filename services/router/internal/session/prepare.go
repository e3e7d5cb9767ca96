package session

import (
	"bytes"
	"crypto/sha256"

	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// A statement that the connection in use does not hold is parsed there before
// the message that needs it, and described, so that rows never come in another
// shape than the client was told. Nothing of this is shown. It is part of the
// client's sequence: a Sync would end its implicit transaction, so what is
// injected ends with a Flush.

// prepared reports whether the connection in use holds the statement, no older than the
// client's own and if exact, as the client knows it. If not, it begins to prepare it, and the message
// that needs it must wait.
func (s *Session) prepared(st *Statement, exact bool, run *forwarding) bool {
	h := s.held[s.at].statements.find(st)
	if h == nil || st.passing {
		s.lives(st)
		h = s.held[s.at].statements.find(st)
	}
	if h != nil && !h.stale && s.counts(s.at, st, &h.from) && (!exact || h.told.covers(&st.told) && !h.told.contradicts(&st.told)) {
		return true
	}
	s.missing, s.exact = st, exact
	s.anew()
	s.inject(run)
	run.flush()
	return false
}

// anew notes that what the client sends waits for something, so that a cancel request may
// find nothing running. One from before was for what has run by then, unless that is a read
// that has shown nothing yet.
func (s *Session) anew() {
	if !s.retry {
		s.interrupted = false
	}
}

// inject sends what the missing statement needs. One that the connection holds is parsed
// again: it may be from before a change, and that it cannot be described any more would be
// the client's error.
func (s *Session) inject(run *forwarding) {
	st := s.missing
	held := s.held[s.at].statements
	switch {
	case st.server == "":
	case held.find(st) != nil:
		s.closeHidden(run, st.server)
	default:
		s.vacate(st, run)
		s.makeRoom(run, held)
	}
	held.add(st, s.origin())
	s.owed.sent(owed{typ: wire.Parse, how: hide, st: st, scope: st.scope()})
	run.build(func(b []byte) []byte { return appendParse(b, st.server, st.body) })
	s.owed.sent(owed{typ: wire.Describe, how: hide, st: st})
	run.build(func(b []byte) []byte {
		b = appendTarget(b, wire.Describe, st.server)
		return append(b, wire.Flush, 0, 0, 0, 4)
	})
}

// makeRoom closes statements of the connection if there are too many.
func (s *Session) makeRoom(run *forwarding, held *Statements) {
	limit := s.env.Settings().MaxStatements
	for name := held.excess(limit); name != ""; name = held.excess(limit) {
		s.closeHidden(run, name)
	}
}

// closeHidden closes a statement on the server, unseen.
func (s *Session) closeHidden(run *forwarding, name string) {
	s.owed.sent(owed{typ: wire.Close, how: hide, scope: namedScope, name: name})
	run.build(func(b []byte) []byte { return appendTarget(b, wire.Close, name) })
}

// described takes note of a message that answers a Describe. One that is too long
// to be looked at whole counts by its length.
func (s *Session) described(o *owed, typ byte, msg []byte, all bool) {
	if !all {
		msg = msg[:wire.HeaderSize]
	}
	d := s.descriptionOf(typ, msg, all)
	set := func(t *told) {
		if typ == wire.ParameterDescription {
			t.params, t.isParams = d, true
		} else {
			t.rows, t.isRows = d, true
		}
	}
	if !o.portal {
		if held := s.held[s.at].statements.find(o.st); held != nil {
			set(&held.told)
		}
	}
	if o.how == forward && !o.st.raw { // one that is raw is not parsed anywhere else
		set(&o.st.told)
	}
}

// lastRows is the RowDescription that came last, if it is not long, and what it says: most of
// what a client runs it runs again.
type lastRows struct {
	msg []byte
	sum description
}

// maxRows is how long a RowDescription may be to be remembered, in bytes.
const maxRows = 512

// descriptionOf gives what an answer to a Describe says. all says that msg is all of it.
func (s *Session) descriptionOf(typ byte, msg []byte, all bool) (d description) {
	rows := typ == wire.RowDescription && all
	if rows && bytes.Equal(msg, s.rows.msg) {
		return s.rows.sum
	}
	from := len(s.built)
	s.built = append(s.built, msg...)
	if rows {
		onlyShape(s.built[from:])
	}
	sum := sha256.Sum256(s.built[from:])
	s.built = s.built[:from]
	copy(d[:], sum[:])
	if rows && len(msg) <= maxRows {
		s.rows = lastRows{append(s.rows.msg[:0], msg...), d}
	}
	return d
}

// onlyShape clears what is not the shape of a RowDescription's columns ("Message
// Formats"): the table and column they come from, which differ where search_path
// leads to another table and which PostgreSQL does not compare either, and the
// formats, which are the portal's.
func onlyShape(msg []byte) {
	const fixed = 4 + 2 + 4 + 2 + 4 + 2
	for b := msg[min(len(msg), wire.HeaderSize+2):]; ; {
		_, rest, ok := cutString(b)
		if !ok || len(rest) < fixed {
			return
		}
		clear(rest[:4+2])
		clear(rest[fixed-2 : fixed])
		b = rest[fixed:]
	}
}

// goOn lets what waited for the missing statement go on, once everything that was
// sent for it has been answered.
func (s *Session) goOn() {
	st := s.missing
	if st == nil {
		s.replay()
		return
	}
	if !s.owed.empty() {
		return
	}
	h := s.held[s.at].statements.find(st)
	switch {
	case s.interrupted: // perhaps when the server had nothing to cancel
		run := forwarding{s: s}
		s.fail(&run, &canceled)
		run.flush()
	case !s.exact || h == nil || !h.told.contradicts(&st.told):
		s.missing = nil
		s.enter(Busy)
		s.replay()
	case !s.elsewhere():
		// On the primary too, rows or parameters are no longer what the client was told.
		// The message that waits is discarded with the others up to Sync.
		run := forwarding{s: s}
		s.fail(&run, &changedResult)
		run.flush()
	}
}

// elsewhere runs a read on the primary instead of the replica that could not
// prepare it, if nothing of its answer has been shown. The replica's connection
// is in the middle of a sequence.
func (s *Session) elsewhere() bool {
	if s.at != ReplicaSlot || !s.retry {
		return false
	}
	s.dropOwed()
	s.let(s.at, Broken)
	s.acquire(route.Request{Reason: route.ReasonUnprepared})
	return true
}

// fail makes the server fail where the client's message would have, and shows
// the problem instead of the server's error: the server discards what follows,
// and its transaction is aborted, as it should.
func (s *Session) fail(run *forwarding, p *Problem) {
	s.failAs(run, owed{typ: wire.Bind, more: &further{instead: p}})
}

// failParse does so for a Parse, which begins by removing the unnamed statement.
func (s *Session) failParse(run *forwarding, p *Problem, name []byte) {
	o := owed{typ: wire.Bind, more: &further{instead: p}}
	if len(name) == 0 {
		o.scope, o.undoes, o.was = unnamedScope, true, s.unnamed
		s.unnamed = nil
	}
	s.failAs(run, o)
}

func (s *Session) failAs(run *forwarding, o owed) {
	s.owed.sent(o)
	run.build(func(b []byte) []byte {
		b = append(b, wire.Bind, 0, 0, 0, byte(4+1+len(noStatement)+1+6), 0)
		b = append(append(b, noStatement...), 0)
		return append(b, 0, 0, 0, 0, 0, 0)
	})
}

// noStatement is the name of a statement that no server has.
const noStatement = serverPrefix + "none"

// replay sends what is left of a whole read sequence that has been taken from the
// client.
func (s *Session) replay() {
	if s.again == nil || s.missing != nil || s.phase != Busy || !s.extended || s.replayed == 0 && !s.owed.skipping && !s.prepareAll() {
		return
	}
	run := forwarding{s: s, all: s.again}
	for s.replayed < len(s.again) && s.missing == nil {
		rest := s.again[s.replayed:]
		typ, total, err := wire.Header(rest)
		if err != nil || total == 0 || total > len(rest) {
			s.violation("incomplete message") // surveyed before: cannot be
			return
		}
		n := s.stream(typ, total, rest, s.again, s.replayed, &run)
		if n == 0 {
			break
		}
		s.replayed += n
	}
	run.flush()
}

// keepStatements begins a sequence: of one that is prepared as a whole, all that it
// needs stays until it has run.
func (s *Session) keepStatements() {
	held := s.held[s.at].statements
	held.hold = 0
	if s.at == ReplicaSlot {
		held.keep()
	}
}

// prepareAll prepares what a sequence needs on a replica before any of it is sent:
// until then it can still run elsewhere. It reports whether that is done.
func (s *Session) prepareAll() bool {
	if s.at != ReplicaSlot {
		return true
	}
	for b := s.again; len(b) > 0; {
		typ, total, err := wire.Header(b)
		if err != nil || total == 0 || total > len(b) {
			return true
		}
		var name []byte
		ok := false
		switch typ {
		case wire.Bind:
			_, name, _, ok = splitBind(b[:total])
		case wire.Describe:
			var kind byte
			kind, name, ok = splitTarget(b[:total])
			ok = ok && kind == 'S'
		}
		b = b[total:]
		if !ok || s.seq.defines(s.again, name, len(s.again)-len(b)) {
			continue
		}
		st := s.statement(name)
		if st == nil || st.raw || st.local.kind != notLocal {
			continue
		}
		run := forwarding{s: s}
		if !s.prepared(st, true, &run) {
			return false
		}
	}
	return true
}
