package session

import (
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// ServerLost says that the connection in the slot is gone.
func (s *Session) ServerLost(slot Slot) {
	h := s.held[slot]
	if !h.ok {
		return
	}
	bound := s.bound(slot)
	if slot == s.at {
		s.equipping = equipping{}
	}
	if slot == s.at && s.phase == Busy && !s.retry && !s.retreating {
		s.saw(slot, &h) // part of an answer; the next read sees to it
	}
	s.let(slot, Broken)
	if slot == s.at && s.phase != Busy && !bound {
		s.owed.unsure = 0 // what was open of a copy was between it and the client
		s.pins &^= pinCopy
	}
	switch {
	case s.phase == Passing:
		s.end() // what it has said last has been passed on
	case bound:
		s.loseState()
	case slot != s.at:
	case s.phase == Idle:
		s.limitIdle() // its transaction is nobody's any more
	case s.phase == Granted:
		s.route() // nothing has been sent yet
	case s.phase == Applying:
		s.applyElsewhere(h.by.Backend)
	case s.phase == Failing:
		s.failElsewhere()
	case s.retreating:
		s.dropOwed()
		s.acquire(route.Request{Reason: route.ReasonRerun})
	case s.phase == Busy && s.retry && s.interrupted:
		s.dropOwed()
		s.stops()
	case s.phase == Busy && s.retry && !s.tried.Has(h.by.Backend):
		// Nothing of the read's answer has been shown: run it elsewhere. If it is what
		// brings servers down, each of them has had it once.
		s.dropOwed()
		s.tried = s.tried.With(h.by.Backend)
		if s.block.here() {
			s.routeBlock()
		} else {
			s.read()
		}
	case s.phase == Busy:
		s.loseStatement()
	}
}

// loseState ends the session: what it had in its connection is lost with it.
// Going on in the middle of a transaction would run its remaining statements
// outside of any.
func (s *Session) loseState() {
	p := lostState
	if s.phase == Busy {
		p = s.lostStatement()
		p.Fatal = true
	}
	switch {
	case s.status != wire.Idle:
		p.Detail = "A transaction was open."
	case s.pins != 0:
		p.Detail = "The session had state in it (" + s.pins.String() + ")."
	default:
		p.Detail = "The session may have had state in it (pool.mode is session)."
	}
	s.finish(&p)
}

// loseStatement answers the statement that ran on the lost connection. The session
// lives on, unless that statement may have opened a transaction: statements that
// the client has sent behind it would run outside of any.
func (s *Session) loseStatement() {
	whole := s.taken
	s.forget()
	if s.fromServer > 0 || s.fatal {
		// Half a message has been shown, or the server's own last word.
		s.end()
		return
	}
	answered := s.owed.front().stray != 0 // only what waits behind it is not
	erred := s.owed.erred                 // there is one error for a sequence
	syncs := s.owed.syncs
	several := s.extended && (syncs > 1 || syncs == 1 && s.owed.open)
	if s.opaque && !answered || several || s.extended && s.owed.asksOfStray() {
		p := s.lostStatement()
		p.Fatal = true
		s.finish(&p)
		return
	}
	p := s.lostStatement()
	s.dropOwed()
	if s.written {
		// Whatever was sent may have committed.
		s.written = false
		s.do(Action{Op: OpSettle, Mark: s.fence.Mark()})
	}
	if answered {
		s.idle()
		return
	}
	switch skips := s.extended && syncs == 0 && !whole; {
	case skips && !erred:
		s.report(&p)
		s.enter(Skipping)
	case skips:
		s.enter(Skipping)
	case erred:
		s.readyAfterSkipping()
	default:
		s.answer(&p)
		s.idle()
	}
}

// dropOwed forgets what a lost connection owes.
func (s *Session) dropOwed() {
	s.takeBack(s.owed.drop(), false)
	if s.block.replica || s.block.state == opened { // it goes on elsewhere
		s.unsent()
		return
	}
	begun := s.set.Begun()
	s.set.Failed() // for what has been answered, too: nobody knows whether it stayed
	s.set.Ready(true)
	if begun {
		s.changed()
	}
	s.unsent()
}

// unsent forgets what waited for answers of the connection.
func (s *Session) unsent() {
	s.unask()
	s.missing, s.blocked, s.forgetting, s.retreating = nil, false, false, false
}

// lostStatement is the error for a statement whose answer is lost.
func (s *Session) lostStatement() Problem {
	p := lostConnection
	if s.word != nil {
		p, s.word = *s.word, nil
	}
	if s.written {
		p.Hint = "A statement that writes may have been committed: check before running it again."
	}
	return p
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
	case p.Fatal:
		s.finish(p)
	case s.again != nil:
		s.forget()
		s.fallHere()
		s.answer(p)
		s.idle()
	default:
		s.fallHere()
		s.problem = *p
		s.enter(Refused)
	}
}

// refuse answers the message at the head with the error that waits for it.
func (s *Session) refuse(typ byte, total int, rest []byte) int {
	n := s.drop(total, rest)
	s.seq.scanned, s.known = 0, false
	s.refreshing, s.refreshed = nil, nil
	switch typ {
	case wire.Query, wire.FunctionCall:
		s.answer(&s.problem)
		s.idle()
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
	return n
}

func (s *Session) readyAfterSkipping() {
	s.showReady()
	s.idle()
}

// idle ends a request.
func (s *Session) idle() {
	s.extended, s.taken, s.opaque, s.sweeps, s.roams, s.retunes, s.equipped = false, false, false, false, false, false, false
	s.interrupted = false
	s.enter(Idle)
	if s.leaving && s.status == wire.Idle {
		s.finish(&shutdown)
		return
	}
	s.limitIdle()
}

// Unsent reports whether the session is in a transaction that is bound to its server, and
// the statement has not left yet: nothing runs that could be canceled, and to answer the
// statement with an error would not fail the server's transaction. A cancel request has
// come too early.
func (s *Session) Unsent() bool {
	switch s.phase {
	case Judging, Settling, Queued:
		return s.inTransaction() && !(s.block.replica && s.movable())
	}
	return false
}

// Cancel handles the client's cancel request, if it has not come too early.
func (s *Session) Cancel() {
	if s.Unsent() {
		return
	}
	switch s.phase {
	case Judging, Settling, Queued:
		s.do(Action{Op: OpWithdraw})
		s.token = tokenWait{}
		s.enter(Queued)
		s.Refuse(&canceled)
	case Applying, Busy, Passing:
		s.interrupted = true
		s.do(Action{Op: OpCancel, Slot: s.at})
	}
}

// stops ends the statement that is about to be sent, or to run again, if the client has
// asked to cancel it, and reports whether it does. The request may have reached a server that
// had nothing of it to cancel.
func (s *Session) stops() bool {
	if !s.interrupted {
		return false
	}
	s.applies = 0
	if !s.bound(s.at) {
		s.let(s.at, Clean)
	}
	s.enter(Queued)
	s.Refuse(&canceled)
	return true
}

// ClientGone says that the client has closed its connection or that it broke.
func (s *Session) ClientGone() { s.end() }

// Stop ends the session with 57P01 as soon as it is idle outside a transaction.
func (s *Session) Stop() {
	s.leaving = true
	if s.phase == Idle && !s.known && !s.token.done {
		s.idle()
	}
}

// Kill ends the session with 57P01 now, unless half a message has been shown.
func (s *Session) Kill() {
	if s.phase != Closed {
		s.finish(&shutdown)
	}
}

// violation ends the session for a message that breaks the protocol.
func (s *Session) violation(what string) {
	s.finish(&Problem{Code: "08P01", Message: what, Fatal: true})
}

// finish ends the session with a fatal error, which is not shown in the middle of
// a message or behind the server's own.
func (s *Session) finish(p *Problem) {
	if (s.fromServer == 0 || s.hidden) && !s.fatal && s.phase != Passing {
		s.report(p)
	}
	s.end()
}

// end lets go of everything the session holds or waits for, and closes.
func (s *Session) end() {
	switch s.phase {
	case Closed:
		return
	case Login, Judging, Settling, Queued:
		s.do(Action{Op: OpWithdraw})
	case Applying, Failing, Passing:
		s.let(s.at, Broken)
	case Busy:
		s.unask()
		if s.held[s.at].ok {
			if s.owed.copying || !s.owed.empty() { // otherwise it waits for the client
				s.do(Action{Op: OpCancel, Slot: s.at})
			}
			s.let(s.at, Broken)
		}
	}
	s.close()
}

func (s *Session) close() {
	s.forget()
	for slot := range slots {
		how := Clean
		if slot == s.at && (s.inTransaction() || s.fromClient > 0 && !s.discard || s.fromServer > 0 || s.owed.unsure > 0) {
			how = Broken // closing it rolls the transaction back
		}
		s.let(slot, how)
	}
	s.do(Action{Op: OpClose})
	s.enter(Closed)
}

// forget drops the copy of a running read.
func (s *Session) forget() {
	s.retry, s.doubted = false, false
	if s.again != nil {
		s.env.Drop(s.again)
		s.again = nil
	}
}
