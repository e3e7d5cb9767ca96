package session

import (
	"bytes"

	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

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
		delete(t.held, e.name)
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
