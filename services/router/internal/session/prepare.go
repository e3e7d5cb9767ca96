package session

import (
	"crypto/sha256"

	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// A statement that the connection in use does not hold is parsed there before
// the message that needs it, and described, so that rows never come in another
// shape than the client was told. Nothing of this is shown. It is part of the
// client's sequence: a Sync would end its implicit transaction, so what is
// injected ends with a Flush.

// prepared reports whether the connection in use holds the statement as the
// client knows it. If not, it begins to prepare it, and the message that needs it
// must wait.
func (s *Session) prepared(st *Statement, run *forwarding) bool {
	h := s.held[s.at].statements.find(st)
	if h != nil && (!st.isTold || h.isTold && h.told == st.told) {
		return true
	}
	s.missing, s.injected = st, false
	run.flush()
	if s.owed.empty() {
		s.inject()
		return false
	}
	s.toServer(func(b []byte) []byte { return append(b, wire.Flush, 0, 0, 0, 4) })
	return false
}

// inject sends what the missing statement needs, everything before it answered.
func (s *Session) inject() {
	st := s.missing
	held := s.held[s.at].statements
	s.injected = true
	s.toServer(func(b []byte) []byte {
		if held.find(st) == nil {
			if name := held.full(s.env.Settings().MaxStatements, st); name != "" {
				b = appendTarget(b, wire.Close, name)
				s.owed.sent(owed{typ: wire.Close, how: hide})
			}
			held.add(st)
			b = appendParse(b, st)
			s.owed.sent(owed{typ: wire.Parse, how: hide, st: st})
		}
		b = appendTarget(b, wire.Describe, st.server)
		s.owed.sent(owed{typ: wire.Describe, how: hide, st: st})
		return append(b, wire.Flush, 0, 0, 0, 4)
	})
}

// full gives the statement to close before another is parsed; none while there is
// room.
func (t *Statements) full(limit int, next *Statement) string {
	if next.server == "" || len(t.held) < limit || len(t.held) == 0 {
		return ""
	}
	return t.oldest()
}

// makeRoom closes a statement of the connection if there are too many.
func (s *Session) makeRoom(run *forwarding, held *Statements) {
	if len(held.held) < s.env.Settings().MaxStatements || len(held.held) == 0 {
		return
	}
	name := held.oldest()
	s.owed.sent(owed{typ: wire.Close, how: hide})
	run.build(func(b []byte) []byte { return appendTarget(b, wire.Close, name) })
}

// described takes note of a message that answers the Describe of a statement.
func (s *Session) described(o owed, typ byte, msg []byte) {
	h := sha256.New()
	if typ != wire.ParameterDescription {
		h.Write(s.describing[:])
	}
	h.Write(msg)
	var sum [sha256.Size]byte
	copy(s.describing[:], h.Sum(sum[:0]))
	if typ == wire.ParameterDescription {
		return
	}
	if held := s.held[s.at].statements.find(o.st); held != nil {
		held.told, held.isTold = s.describing, true
	}
	if o.how == forward {
		o.st.told, o.st.isTold = s.describing, true
	}
}

// ready for what waited: everything before the missing statement has been
// answered, or the statement has.
func (s *Session) goOn() {
	st := s.missing
	if st == nil || !s.owed.empty() {
		return
	}
	if !s.injected {
		s.inject()
		return
	}
	s.missing = nil
	h := s.held[s.at].statements.find(st)
	if h != nil && st.isTold && h.isTold && h.told != st.told {
		s.changed()
		return
	}
	s.enter(Busy)
	s.replay()
}

// changed deals with a statement whose rows or parameters are no longer what the
// client was told. On a replica they may be what they were, or not yet be what
// they are: the primary decides.
func (s *Session) changed() {
	if s.elsewhere() {
		return
	}
	run := forwarding{s: s}
	s.fail(&run, &Problem{Code: "0A000", Message: "cached plan must not change result type"})
	run.flush()
	s.enter(Busy)
}

// elsewhere runs a read on the primary instead of the replica that could not
// prepare it, if nothing of its answer has been shown. The replica's connection
// is in the middle of a sequence.
func (s *Session) elsewhere() bool {
	if s.at != ReplicaSlot || !s.retry {
		return false
	}
	s.missing = nil
	s.takeBack(s.owed.all())
	s.owed.clear()
	s.let(s.at, Broken)
	s.acquire(route.Request{Reason: route.ReasonUnprepared})
	return true
}

// fail makes the server fail where the client's message would have, and shows
// the problem instead of the server's error: the server discards what follows,
// and its transaction is aborted, as it should.
func (s *Session) fail(run *forwarding, p *Problem) {
	s.owed.sent(owed{typ: wire.Bind, st: nil, instead: p})
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
	for s.replayed < len(s.again) && s.missing == nil && s.phase == Busy && s.extended {
		rest := s.again[s.replayed:]
		typ, total, err := wire.Header(rest)
		if err != nil || total == 0 || total > len(rest) {
			s.violation("incomplete message") // surveyed before: cannot be
			return
		}
		run := forwarding{s: s, all: s.again}
		n := s.stream(typ, total, rest, s.again, s.replayed, &run)
		run.flush()
		s.replayed += n
		if n == 0 {
			return
		}
	}
}
