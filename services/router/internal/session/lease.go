package session

import (
	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// Granted lends a connection. The session holds it from now on.
func (s *Session) Granted(g *Grant) {
	if s.phase != Queued && s.phase != Login {
		return
	}
	stays := s.goesOnIn(g)
	s.amending = amending{}
	h := &s.held[g.Slot]
	h.ok, h.by, h.statements, h.settings, h.reported = true, g.Server, g.Statements, g.Settings, g.Reported
	h.timeline = g.Replayed.Timeline
	h.lent, h.replayed, h.asOf = s.env.Parsings().now(), g.Replayed, g.AsOf
	if g.Slot == PrimarySlot && s.asked.Mode.Remembers() { // in other modes nothing was waited for
		s.isAside = false
	}
	if h.statements == nil {
		h.statements = new(Statements)
	}
	if h.settings == nil {
		h.settings = new(settings.Hash)
	}
	s.at = g.Slot
	s.escapes = s.escapes || g.Reported != nil && g.Reported.escapes
	if s.phase == Login {
		s.greet(g.Parameters)
		switch {
		case s.phase == Closed: // the router stops
		case s.rec.Replication != "":
			s.passOn()
		default:
			s.let(g.Slot, Clean)
		}
		return
	}
	s.last = handoff.Route{
		Backend: g.Name, Role: g.Role.String(), Reason: g.Reason.String(),
		Fence: s.fence.Position(), Replay: g.Replayed, WaitedMicros: g.Waited.Microseconds(),
	}
	s.equipped = false
	switch strange := s.others(); {
	case stays:
		s.proceed()
	case *h.settings != s.set.List().Hash():
		s.strange = strange
		s.apply()
	case strange != nil:
		s.loses(strange)
	default:
		s.proceed()
	}
}

// proceed lets the statement at the head, or the read that runs again, go on with
// the connection.
func (s *Session) proceed() {
	if s.stops() {
		return
	}
	if s.block.state == fallen {
		s.failThere()
		return
	}
	s.applies = 0
	if s.escapes && s.at == PrimarySlot {
		s.verdict.Kind = verdict.Write // it has been judged by what it is elsewhere
	}
	if s.again != nil {
		if !s.extended && s.equips(wire.Query, s.again) {
			return
		}
		s.runAgain()
		return
	}
	s.enter(Granted)
}

// runAgain sends the read that has failed elsewhere. One that a replica cannot run may
// have been judged before what it calls was changed: whatever it does now, it does here.
func (s *Session) runAgain() {
	if (s.doubted || s.escapes) && s.at == PrimarySlot {
		s.doubted = false
		v := s.verdict
		v.Kind, v.Effects = verdict.Write, v.Effects|verdict.Unproven
		s.effects(v, nil, nil)
	}
	run := forwarding{s: s}
	s.sendBegin(&run, !s.extended)
	run.flush()
	s.enter(Busy)
	if s.extended {
		s.replayed, s.seq.next = 0, 0
		s.keepStatements()
		s.replay()
		return
	}
	s.owed.sent(s.simple(wire.Query))
	s.do(Action{Op: OpToServer, Slot: s.at, Data: s.again})
}

// letGo gives back what is not needed between statements. A connection that has
// had half a message of the client (data for a copy that failed) gets the rest
// first, which it ignores.
func (s *Session) letGo() {
	if s.inTransaction() || s.env.Settings().PerSession || s.fromClient > 0 && !s.discard {
		return
	}
	for slot := range slots {
		if slot != PrimarySlot || s.pins == 0 {
			s.let(slot, Clean)
		}
	}
}

// let gives a connection back.
func (s *Session) let(slot Slot, how Condition) {
	h := &s.held[slot]
	if !h.ok {
		return
	}
	switch {
	case h.indelible:
		how = Broken
	case how == Clean && (h.used || h.roleless):
		how = Used
	case how == Clean && h.stepped:
		how = Stepped
	}
	was := *h
	*h = held{}
	if slot == ReplicaSlot && s.block.replica {
		switch how {
		case Clean:
			how = Open
		case Stepped, Used: // two things would have to be done
			how = Broken
		}
		s.leftReplica(&was)
	}
	s.checkRelease(slot, how)
	if slot == s.at && s.fromClient > 0 {
		s.discard = true
	}
	if slot == s.at && s.hidden {
		s.fromServer = 0 // nobody has seen the beginning
	}
	s.do(Action{Op: OpRelease, Slot: slot, How: how})
}
