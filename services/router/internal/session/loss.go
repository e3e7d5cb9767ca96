package session

import (
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// ServerLost says that the connection in the slot is gone.
func (s *Session) ServerLost(slot Slot) {
	if !s.held[slot].ok {
		return
	}
	backend := s.held[slot].by.Backend
	s.let(slot, Broken)
	if slot != s.at || s.status == wire.Idle && s.phase != Busy && s.phase != Granted && s.pin == "" {
		return // an idle connection is nobody's business
	}
	switch {
	case s.phase == Busy && s.again != nil:
		// Nothing of the read's answer has been shown: run it elsewhere.
		s.owed.clear()
		s.tried = s.tried.With(backend)
		s.acquire(route.Request{Read: true})
	case s.phase == Granted && s.status == wire.Idle && s.pin == "":
		s.route() // nothing has been sent yet
	default:
		s.lose()
	}
}

// lose ends what the lost connection was doing.
func (s *Session) lose() {
	inTransaction := s.status != wire.Idle
	if s.written || inTransaction {
		// Whatever was sent may have committed.
		s.written = false
		s.do(Action{Op: OpSettle, Mark: s.fence.Mark()})
	}
	switch {
	case s.fromServer > 0, s.fatal:
		// Half a message has been shown, or the server's own last word.
		s.close()
		return
	case s.pin != "":
		p := lostConnection
		p.Fatal = true
		p.Detail = "The session had state in its server connection (" + s.pin + "), which is lost with it."
		s.finish(&p)
		return
	}
	busy := s.phase == Busy
	s.owed.clear()
	s.status, s.copyIn = wire.Idle, false
	if s.fromClient > 0 {
		s.discard = true
	}
	if busy {
		s.answer(&lostConnection)
		s.enter(Idle)
		return
	}
	s.problem = lostConnection
	s.enter(Refused)
}

// Refuse says that no connection can be had for the statement at the head, or for
// the login.
func (s *Session) Refuse(p *Problem) {
	switch {
	case s.phase == Login:
		fatal := *p
		fatal.Fatal = true
		s.finish(&fatal)
	case s.phase != Queued:
	case s.again != nil:
		s.forget()
		s.answer(p)
		s.enter(Idle)
	default:
		s.problem = *p
		s.enter(Refused)
	}
}

// refuse answers the message at the head with the error that waits for it.
func (s *Session) refuse(typ byte, total int, rest []byte) int {
	n := s.drop(total, rest)
	switch typ {
	case wire.Query, wire.FunctionCall:
		s.answer(&s.problem)
		s.enter(Idle)
	case wire.CopyData, wire.CopyDone, wire.CopyFail:
	case wire.Terminate:
		s.end()
		return len(rest)
	default:
		s.report(&s.problem)
		s.enter(Skipping)
		if typ == wire.Sync {
			s.readyAfterSkipping()
		}
	}
	s.known = false
	return n
}

func (s *Session) readyAfterSkipping() {
	from := len(s.scratch)
	s.scratch = wire.AppendReadyForQuery(s.scratch, s.status)
	s.toClient(from)
	s.enter(Idle)
}

// Cancel handles the client's cancel request.
func (s *Session) Cancel() {
	switch s.phase {
	case Judging, Settling, Queued:
		s.do(Action{Op: OpWithdraw})
		s.enter(Queued)
		s.Refuse(&canceled)
	case Busy:
		s.do(Action{Op: OpCancel, Slot: s.at})
	}
}

// ClientGone says that the client has closed its connection or that it broke.
func (s *Session) ClientGone() { s.end() }

// Stop ends the session with 57P01 as soon as it is idle outside a transaction.
func (s *Session) Stop() {
	s.leaving = true
	if s.phase == Idle && s.status == wire.Idle && s.fromClient == 0 {
		s.finish(&shutdown)
	}
}

// Kill ends the session with 57P01 now, unless half a message has been shown.
func (s *Session) Kill() {
	if s.phase == Closed {
		return
	}
	if s.fromServer > 0 {
		s.end()
		return
	}
	s.finish(&shutdown)
}

// violation ends the session for a message that breaks the protocol.
func (s *Session) violation(what string) {
	s.finish(&Problem{Code: "08P01", Message: what, Fatal: true})
}

// finish shows a fatal error and ends the session.
func (s *Session) finish(p *Problem) {
	s.report(p)
	s.end()
}

// end lets go of everything the session holds or waits for, and closes.
func (s *Session) end() {
	switch s.phase {
	case Closed:
		return
	case Login, Judging, Settling, Queued:
		s.do(Action{Op: OpWithdraw})
	case Busy:
		if s.held[s.at].ok {
			s.do(Action{Op: OpCancel, Slot: s.at})
			s.let(s.at, Broken)
		}
	}
	s.close()
}

func (s *Session) close() {
	s.forget()
	for slot := range slots {
		how := Clean
		if slot == s.at && (s.status != wire.Idle || s.fromClient > 0 && !s.discard || !s.owed.empty()) {
			how = Broken // closing it rolls the transaction back
		}
		s.let(slot, how)
	}
	s.do(Action{Op: OpClose})
	s.enter(Closed)
}

// forget drops the copy of a running read.
func (s *Session) forget() {
	if s.again != nil {
		s.env.Drop(s.again)
		s.again = nil
	}
}
