package session

import (
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// query handles a simple query at the head: wait for all of its text, know its
// verdict, route it.
func (s *Session) query(total int, rest []byte) int {
	if !s.known {
		s.hint, s.among = nil, nil
		switch {
		case total-wire.HeaderSize > s.env.Settings().MaxText:
			s.verdict = unlooked()
		case len(rest) < total:
			return 0
		default:
			text, ok := wire.QueryText(rest[:total])
			if !ok {
				s.verdict = verdict.Unclassified() // the server says what is wrong with it
				break
			}
			if s.awaitsToken(text) {
				return 0
			}
			if s.queryOwn(text) || s.queryHere(text) {
				s.ranHere()
				return total
			}
			if s.queryBlock(text) {
				return total
			}
			s.hinted(s.hintsOf(text))
			if s.among = s.parts(text); s.among != nil && s.among.rest != nil {
				text = s.among.rest
			}
			v, ok := s.judge(text, nil)
			if !ok {
				return 0
			}
			s.verdict = v
		}
	}
	s.known, s.seq.portals = false, false
	switch {
	case s.among != nil:
		if text, ok := wire.QueryText(rest[:total]); ok && s.partial(text) {
			return total
		}
	case s.verdict.Kind != verdict.Read && len(rest) >= total && s.callsOwn(rest[:total]):
		s.ranHere()
		return total
	}
	if s.resolve() {
		if s.among != nil {
			s.verdict.Kind = verdict.Write // whatever it executes
		}
		s.route()
	}
	return 0
}

// route asks for the connection that the statement at the head needs.
func (s *Session) route() {
	v := s.verdict
	s.tried = 0
	switch {
	case s.block.replica:
		s.routeThere()
	case s.block.here():
		s.routeBlock()
	case s.status != wire.Idle && s.countsAsNone():
		s.enter(Granted)
	case s.status != wire.Idle:
		s.last.Reason, s.last.WaitedMicros = route.ReasonTransaction.String(), 0
		s.enter(Granted)
	case s.pins != 0:
		reason := route.ReasonPinned
		if s.pins&pinExtended != 0 {
			reason = route.ReasonExtended
		}
		s.acquire(route.Request{Reason: reason})
	case v.Kind != verdict.Read:
		s.acquire(route.Request{Reason: route.ReasonWrite})
	default:
		s.read()
	}
}

// begin notes that the simple query or function call at the head leaves for the
// granted connection. all says that all of it is there.
func (s *Session) begin(typ byte, msg []byte, all bool) {
	s.extended = false
	o := s.simple(typ)
	followed := false
	var looked []byte
	if text, ok := wire.QueryText(msg); ok && all && typ == wire.Query {
		looked = text
		o.drops(s.deallocates(text))
		o.cmds, s.verdict = s.queried(text, s.verdict)
		if o.st, followed = s.follows(text); o.st != nil {
			s.bears(o.st)
		}
		o.prepares(s.names(text, &s.verdict))
	}
	if !followed { // otherwise it does nothing else
		s.effects(s.verdict, o.cmds, looked)
	}
	if s.verdict.Kind == verdict.Read && !s.bound(s.at) && s.fromClient == 0 && s.among == nil {
		s.again, s.replayed, s.retry = s.env.Keep(msg), len(msg), true
	}
	if typ == wire.Query {
		o.precedes(s.among)
		s.among = nil
	}
	s.owed.sent(o)
	s.enter(Busy)
}

// simple makes the entry of a simple query, which ends the unnamed statement and the
// unnamed portal, or of a function call.
func (s *Session) simple(typ byte) owed {
	if typ != wire.Query {
		return owed{typ: typ}
	}
	s.held[s.at].statements.dropUnnamed()
	s.endUnnamedPortal()
	s.stale = false
	o := owed{typ: typ, scope: unnamedScope, undoes: s.unnamed != nil, was: s.unnamed}
	s.unnamed = nil
	return o
}

// write makes the fence dirty, before the statement's first byte is forwarded. What may
// write runs once, whatever it was taken for before.
func (s *Session) write(h *held) {
	s.written, s.retry = true, false
	s.fence.Wrote(h.by)
}
