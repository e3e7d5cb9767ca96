package session

import (
	"strconv"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
)

// FromClient looks at bytes of the client and returns how many it has used. The
// rest must be given again, with what came after it, once Steps has changed or
// more bytes are there.
func (s *Session) FromClient(b []byte) int {
	if s.phase == Passing {
		return s.passFromClient(b)
	}
	used := 0
	run := forwarding{s: s, all: b}
	for used < len(b) && s.Reads() {
		rest := b[used:]
		if s.fromClient > 0 {
			n := min(s.fromClient, len(rest))
			s.fromClient -= n
			if !s.discard {
				run.add(b, used, n)
			}
			used += n
			if s.block.resync {
				run.flush()
				s.resync()
			}
			if s.fromClient == 0 && s.phase == Idle && !s.discard {
				run.flush()
				s.letGo() // what ready could not let go of
			}
			continue
		}
		typ, total, err := wire.Request(rest)
		if err != nil {
			run.flush()
			s.violation(err.Error())
			return len(b)
		}
		if total == 0 {
			break
		}
		n := s.message(typ, total, rest, b, used, &run)
		if n == 0 {
			break
		}
		used += n
	}
	run.flush()
	if s.phase == Busy && !s.retry {
		s.emitMade()
	}
	return used
}

// message handles one message at the start of rest, of which more may be to come,
// and returns how many of its bytes are used: none if it must wait.
func (s *Session) message(typ byte, total int, rest, all []byte, at int, run *forwarding) int {
	if (s.phase != Busy || s.owed.skipping) && !frontend(typ) {
		s.violation("invalid frontend message type " + strconv.Itoa(int(typ)))
		return len(rest)
	}
	switch s.phase {
	case Busy:
		return s.whileBusy(typ, total, rest, all, at, run)
	case Granted:
		if s.amending.refusal != nil {
			return s.amends(typ, total, rest)
		}
		if s.equips(typ, rest[:min(total, len(rest))]) {
			return 0
		}
		s.sendBegin(run, typ == wire.Query)
		if !simple(typ) {
			return s.beginSequence(typ, total, rest, all, at, run)
		}
		n := s.take(total, rest)
		if s.among != nil && typ == wire.Query {
			s.sendParts(run)
			return n
		}
		s.begin(typ, rest[:n], n == total)
		run.add(all, at, n)
		return n
	case Refused:
		return s.refuse(typ, total, rest)
	case Skipping:
		n := s.drop(total, rest)
		switch typ {
		case wire.Sync:
			s.readyAfterSkipping()
		case wire.Terminate:
			s.end()
		}
		return n
	}
	return s.whileIdle(typ, total, rest)
}

// whileIdle starts a request.
func (s *Session) whileIdle(typ byte, total int, rest []byte) int {
	switch typ {
	case wire.Query:
		return s.query(total, rest)
	case wire.CopyData, wire.CopyDone, wire.CopyFail:
		// The server ignores what is left of a copy that has failed ("Message Flow:
		// COPY Operations").
		return s.drop(total, rest)
	case wire.Flush, wire.Sync:
		// Between requests a server has nothing to flush, and its answer to Sync is what
		// it said last. (One that is too long is an error.)
		if total == wire.HeaderSize {
			if typ == wire.Sync {
				s.showReady()
			}
			return total
		}
	case wire.Terminate:
		s.end()
		return len(rest)
	}
	switch typ {
	case wire.FunctionCall:
		s.verdict, s.known, s.hint = verdict.Unclassified(), false, nil
		s.route()
		return 0
	case wire.Close:
		if n := s.closesBefore(rest); n > 0 {
			return n
		}
	}
	here := oneStatement{s: s}
	is := here.read(rest)
	if is == unfinished && s.emulates(&here.block) {
		return 0
	}
	if s.survey(rest, s.pins != 0 || s.status != wire.Idle && !s.mayStay()) == known {
		if (is == finished || here.opens()) && s.emulates(&here.block) {
			return s.sequenceHere(&here, is == finished)
		}
		s.hinted(s.seq.hint)
		if s.alone(rest[:s.seq.scanned]) {
			if s.aloneAwaitsToken(rest[:s.seq.scanned]) {
				s.seq.scanned = 0
				return 0
			}
			return s.answerAlone(rest[:s.seq.scanned])
		}
		s.verdict, s.executing, s.among = s.seq.verdict, nil, nil
		if s.seq.own && !s.besides() {
			s.verdict.Kind = verdict.Write
		}
		s.route()
	}
	return 0
}

// beginSequence sends the sequence at the head to the granted connection. One that
// reads is there as a whole and is kept, to be run elsewhere if need be. Of any other,
// and of one on a connection that the session is bound to, the messages are sent as they
// come.
func (s *Session) beginSequence(typ byte, total int, rest, all []byte, at int, run *forwarding) int {
	s.extended = true
	s.enter(Busy)
	size := s.seq.scanned
	s.seq.scanned = 0
	s.keepStatements()
	if s.at == ReplicaSlot || s.verdict.Kind == verdict.Read && s.seq.whole && !s.bound(s.at) {
		run.flush() // BEGIN, if it is the first of a block
		s.again, s.replayed, s.retry, s.taken = s.env.Keep(rest[:size]), 0, !s.block.replica || s.movable(), true
		s.replay()
		return size
	}
	return s.stream(typ, total, rest, all, at, run)
}

// bind binds the session to its primary connection.
func (s *Session) bind(why pins) {
	if why == pinState {
		s.leaveSQL()
	}
	s.pins |= why
}

// frontend reports whether clients send messages of the type.
func frontend(typ byte) bool {
	switch typ {
	case wire.Query, wire.Parse, wire.Bind, wire.Describe, wire.Execute, wire.Close, wire.Sync, wire.Flush,
		wire.FunctionCall, wire.CopyData, wire.CopyDone, wire.CopyFail, wire.Terminate:
		return true
	}
	return false
}

// whileBusy forwards what may follow before the answers are there. A message that
// has no place where it is goes to the server as well, which says so.
func (s *Session) whileBusy(typ byte, total int, rest, all []byte, at int, run *forwarding) int {
	switch {
	case typ == wire.Terminate:
		return s.goodbye(rest, run)
	case s.isStray(typ):
		return s.stray(typ, total, rest, all, at, run)
	case s.extended && s.owed.copies > 0 && s.owed.syncs > 0 && !ofCopy(typ):
		return s.wait() // until it is known whether the Syncs are answered
	case s.doubts() && s.owed.ended() && !ofCopy(typ):
		s.awaitAnswers(run) // if the copy has failed it may be one of them
		return 0
	case typ == wire.Flush && s.owed.copying:
		return s.drop(total, rest) // ignored by the server
	case s.extended && !s.owed.copying && s.awaitsRoom(run):
		return 0
	case s.extended && !s.owed.copying && !s.owed.open && !s.owed.empty() && s.apart(typ, total, rest):
		return s.wait()
	case simple(typ) && !s.owed.skipping && !s.owed.copying:
		return s.queryInside(typ, total, rest, all, at, run)
	case s.extended && !s.owed.copying:
		return s.stream(typ, total, rest, all, at, run)
	}
	return s.pass(&owed{typ: typ}, total, rest, all, at, run)
}

// awaitsRoom has the message at the head wait where too many before it are to be answered.
func (s *Session) awaitsRoom(run *forwarding) bool {
	if !s.owed.crowded() {
		return false
	}
	if s.emitMade(); !s.owed.crowded() {
		return false
	}
	s.awaitAnswers(run)
	return true
}

// apart reports whether a message that begins a further request is to be judged and
// routed by itself, once what is before it is answered.
func (s *Session) apart(typ byte, total int, rest []byte) bool {
	switch {
	case simple(typ):
		return true
	case typ == wire.Sync:
		return false
	case typ == wire.Parse && !s.judged(rest, total):
		return true
	}
	return s.amending.given || s.retunes || s.mode() == fence.Linear || s.brings(typ, rest[:min(total, len(rest))])
}

// judged reports whether the verdict on a Parse that begins a further sequence is
// known; if not, the sequence waits until it can be asked for.
func (s *Session) judged(rest []byte, total int) bool {
	if len(rest) < total {
		return true // stream waits for the rest of it
	}
	name, text, types, ok := splitParse(rest[:total])
	if !ok || len(text) > s.env.Settings().MaxText || s.repeats(name, rest[wire.HeaderSize+len(name)+1:total]) {
		return true
	}
	_, ok = s.env.Verdict(s, typed(text, types))
	return ok
}

// take uses a message that is forwarded, of which the end may still be to come.
func (s *Session) take(total int, rest []byte) int {
	n := min(total, len(rest))
	s.fromClient, s.discard = total-n, false
	return n
}

// drop uses a message that nobody gets.
func (s *Session) drop(total int, rest []byte) int {
	n := min(total, len(rest))
	s.fromClient, s.discard = total-n, true
	return n
}

// Judged gives the verdict asked for. It is ignored if the session has gone on.
func (s *Session) Judged(v verdict.Verdict) {
	switch {
	case s.refreshing != nil:
		s.refreshedBy(v)
		return
	case s.phase == Judging:
		s.enter(Idle)
	case s.asking:
		s.asking = false
		s.enter(Busy)
	default:
		return
	}
	s.verdict, s.known = v, true
}
