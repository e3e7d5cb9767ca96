package session

import "github.com/pgpilot/pgpilot/libs/wire"

// describe translates a whole Describe.
func (s *Session) describe(msg, all []byte, at int, run *forwarding) int {
	kind, name, ok := splitTarget(msg)
	o := owed{typ: wire.Describe}
	switch {
	case !ok || kind != 'S' && kind != 'P':
		return s.pass(&o, len(msg), msg, all, at, run)
	case kind == 'P':
		here := s.here.find(name)
		switch {
		case here != nil && s.owed.syncs > 0:
			return s.wait()
		case here != nil && s.awaitsPortals(run):
			return 0
		case here != nil:
			o.st, o.portal = here.st, true
			s.answerHere(o, run)
			return len(msg)
		case s.latest.is(name):
			o.st, o.portal = s.latest.st, true
		}
		return s.pass(&o, len(msg), msg, all, at, run)
	case s.inDoubt(name):
		return s.wait()
	}
	st := s.statement(name)
	o.st = st
	if st != nil {
		if s.usesInDoubt(st.looked()) {
			return s.wait()
		}
		s.supply(st, run)
	}
	switch {
	case st == nil && s.nowhere(name):
		s.fail(run, unknown(string(name)))
		return len(msg)
	case st != nil && s.unequipped(st) && s.awaitsEnd(run):
		return 0
	case st != nil && s.unequipped(st) && s.failing():
		s.fail(run, &aborted)
		return len(msg)
	case st == nil || st.raw:
		if st != nil && s.unequipped(st) {
			s.equipInside(st, run)
		}
		o.st = nil
		return s.pass(&o, len(msg), msg, all, at, run)
	case st.local.shows() && s.status == wire.Failed:
		s.fail(run, &aborted)
		return len(msg)
	case st.local.kind != notLocal:
		s.answerHere(o, run)
		return len(msg)
	case !s.prepared(st, s.at == ReplicaSlot, run):
		return 0
	case st.server == "":
		return s.pass(&o, len(msg), msg, all, at, run)
	}
	s.owed.sent(o)
	run.build(func(b []byte) []byte { return appendTarget(b, wire.Describe, st.server) })
	return len(msg)
}

// closeMessage translates a whole Close. A statement is closed for this client
// only: others may use it.
func (s *Session) closeMessage(msg, all []byte, at int, run *forwarding) int {
	kind, name, ok := splitTarget(msg)
	switch {
	case ok && kind == 'P' && s.here.find(name) != nil && s.owed.syncs > 0:
		return s.wait()
	case !ok || kind != 'S':
		if ok && kind == 'P' {
			s.here.close(name)
			if s.latest.is(name) {
				s.latest.st = nil
			}
		}
		return s.pass(&owed{typ: wire.Close}, len(msg), msg, all, at, run)
	case len(name) > 0 && s.owed.unsettled(namedScope):
		return s.wait()
	}
	st := s.statement(name)
	o := owed{typ: wire.Close, how: made}
	if st != nil {
		o.scope, o.undoes, o.name, o.was = namedScope, true, st.client, st
	}
	switch {
	case len(name) == 0:
		o.how, o.scope = forward, unnamedScope
		s.held[s.at].statements.dropUnnamed()
	case st == nil:
		if !s.nowhere(name) {
			o.how = forward
		}
	case st.raw && !st.sql:
		o.how = forward
	}
	if st != nil {
		s.define(o.name, nil)
	}
	if o.how == forward {
		return s.pass(&o, len(msg), msg, all, at, run)
	}
	s.answerHere(o, run)
	return len(msg)
}
