package session

import "github.com/pgpilot/pgpilot/libs/wire"

// maxHeld is the largest server message that is looked at whole before it is
// forwarded, in bytes; a larger one passes through in pieces.
const maxHeld = 64 << 10

// fate is what happens to a server message.
type fate uint8

const (
	pass     fate = iota
	withhold      // the client does not get it: of a ReadyForQuery, one that is made here
	mute          // the client gets nothing at all
	replace       // the client gets an error made here instead
	answer        // the client gets what the router answers instead
	decide        // the client gets what was held back until this
	lose          // the connection is of no further use
)

// FromServer looks at bytes of the connection in the slot and returns how many it
// has used. The rest must be given again with what came after it.
func (s *Session) FromServer(slot Slot, b []byte) int {
	if slot != s.at {
		return s.fromAside(slot, b)
	}
	switch s.phase {
	case Applying:
		return s.fromApplying(b)
	case Failing:
		return s.fromFailing(b)
	case Passing:
		return s.passFromServer(b)
	}
	if s.retreating {
		return s.fromRetreat(b)
	}
	if s.retry && s.missing == nil && s.fromServer == 0 && !s.owed.front().begins {
		switch p, problem := outlook(b); {
		case p == dying:
			s.ServerLost(slot)
			return len(b)
		case p == failing && s.retreats(problem):
			return s.fromRetreat(b)
		case p == open && len(b) < flushSize:
			return 0
		}
	}
	s.emitMade()
	used := 0
	shown := 0 // b[:shown] has been forwarded or withheld
	show := func(to int) {
		if shown < to {
			s.do(Action{Op: OpToClient, Data: b[shown:to]})
			shown = to
		}
	}
	for used < len(b) && s.held[slot].ok {
		if s.fromServer > 0 {
			n := min(s.fromServer, len(b)-used)
			if s.hidden {
				show(used)
				shown = used + n
			}
			s.fromServer -= n
			used += n
			if s.fromServer == 0 && s.awaited() {
				show(used)
				s.emitMade()
				s.unblock(0)
				s.goOn()
			}
			continue
		}
		typ, total, err := wire.Header(b[used:])
		if err == nil && total == 0 {
			break
		}
		n := min(total, len(b)-used)
		if n < total && (whole(typ) || s.owed.front().st != nil) && total <= maxHeld {
			break
		}
		what := lose
		begins := s.retry && s.owed.front().begins
		var parts *among
		if more := s.owed.front().more; more != nil {
			parts = more.among
		}
		if err == nil && parts != nil {
			show(used)
			s.precedes(parts, typ, b[used:used+n])
		}
		if err == nil {
			what = s.look(typ, b[used:used+n], n == total)
		}
		switch what {
		case lose:
			show(used)
			s.ServerLost(slot)
			return len(b)
		case withhold, mute:
			show(used)
			shown = used + n
		case replace:
			show(used)
			shown = used + n
			s.report(s.word)
			s.word = nil
		case answer:
			show(used)
			shown = used + n
			s.answerBehind()
		case decide:
			show(used)
			shown = used + n
			s.showReadies()
		}
		used += n
		s.fromServer, s.hidden = total-n, what != pass
		if begins && s.retry && s.fromServer == 0 && !s.owed.front().begins && s.held[slot].ok {
			return used + s.FromServer(slot, b[used:]) // the statement's own answer begins
		}
		if parts != nil {
			show(used)
			s.succeeds(parts, typ)
		}
		if typ == wire.ReadyForQuery {
			show(used)
			if what == withhold {
				s.showReady()
			}
			s.ready()
		}
		if s.fatal {
			show(used)
			s.ServerLost(slot) // it will say no more
			return len(b)
		}
		s.unblock(typ)
		if s.fromServer == 0 && s.awaited() {
			show(used)
			s.emitMade()
			s.unblock(typ)
			s.goOn()
		}
	}
	show(used)
	if !s.held[slot].ok && s.phase != Idle {
		return len(b)
	}
	return used
}

// awaited reports whether the end of a server message may be what something of the
// session's own waits for.
func (s *Session) awaited() bool {
	return s.owed.front().how == made || s.missing != nil || s.again != nil && s.replayed < len(s.again)
}

// unblock lets a message go on that waits, once all before it is answered, behind a
// server message of the type.
func (s *Session) unblock(typ byte) {
	if s.blocked && (s.owed.empty() || typ == wire.CopyInResponse) { // a Sync has been ignored
		s.blocked, s.forgetting = false, false
		s.enter(Busy)
	}
}

// begunToShow notes that part of the answer is shown: from here on the read does
// not run again.
func (s *Session) begunToShow() {
	s.retry = false
	if s.again != nil && s.replayed == len(s.again) {
		s.forget()
	}
}

// fromAside handles what a connection says that is held but not in use. Nothing
// was asked there: it is looked at when the connection is used again. One that
// can be replaced is not worth that.
func (s *Session) fromAside(slot Slot, b []byte) int {
	if s.bound(slot) && len(b) <= maxHeld {
		return 0
	}
	s.ServerLost(slot)
	return len(b)
}

// whole reports whether a message's content matters here, so that it is looked
// at only when all of it is there.
func whole(typ byte) bool {
	switch typ {
	case wire.ReadyForQuery, wire.ParameterStatus, wire.ErrorResponse, wire.NoticeResponse, wire.CommandComplete:
		return true
	}
	return false
}

// look decides what happens to a server message, of which the end may still be
// to come.
func (s *Session) look(typ byte, msg []byte, all bool) fate {
	switch typ {
	case wire.DataRow:
		if s.owed.goesOn() {
			s.begunToShow()
			return pass
		}
	case wire.ParameterStatus:
		if all {
			s.held[s.at].note(msg[wire.HeaderSize:])
		}
		if all && !s.note(msg[wire.HeaderSize:]) {
			return withhold
		}
		return pass
	case wire.NotificationResponse:
		s.notified()
		return pass
	case wire.NoticeResponse, wire.ErrorResponse:
		last := all && farewell(typ, msg)
		if last && s.block.replica && timedOut(msg) {
			s.fatal = true
			return pass
		}
		if last && (s.retry || s.phase != Busy && !s.bound(s.at)) {
			return lose // and nobody needs to hear of it
		}
		if typ == wire.ErrorResponse {
			if s.phase != Busy && !last {
				return lose
			}
			if last && !s.bound(s.at) {
				if s.word = problem(msg); s.word != nil {
					return lose // shown as an error: the session lives on
				}
			}
			s.fatal = s.fatal || last
			return s.failed(msg)
		}
	}
	decides := s.probed(typ)
	front := *s.owed.front()
	if !s.owed.answered(typ) {
		return lose
	}
	switch {
	case front.st == nil || typ == wire.NoticeResponse:
	case front.typ == wire.Describe:
		s.described(&front, typ, msg, all)
	case front.typ == wire.Parse && front.how == forward:
		s.born(front.st)
		if front.undoes && front.scope == unnamedScope {
			s.recycle(front.was)
		}
	}
	s.beganHere(&front, typ)
	switch {
	case front.how == hide && s.behind != nil && typ == wire.EmptyQueryResponse:
		return answer
	case front.how == hide && typ == wire.ReadyForQuery:
		what := s.readiness(msg, all)
		switch {
		case what == lose || front.stray == 0:
			return what
		case front.typ == wire.Close:
			s.readies++
			return mute
		case front.typ == wire.Query && !s.owed.empty():
			return what // one of the client's, before the copy's is known to have been answered
		}
		return mute
	case decides:
		return decide
	case front.how == hide:
		return withhold
	}
	s.begunToShow()
	switch typ {
	case wire.ReadyForQuery:
		return s.readiness(msg, all)
	case wire.CommandComplete:
		if all {
			s.completed(&front, msg[wire.HeaderSize:])
		}
	case wire.PortalSuspended:
		if len(front.cmds) > 0 { // its only row has been computed, or some of several
			s.ran(&front.cmds[0], nil)
			if c, several := front.cmds[0].Doubted(); several {
				s.ran(&c, nil)
			}
		}
	}
	return pass
}
