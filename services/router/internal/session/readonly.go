package session

import (
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// A transaction block that is read only may run on a replica, as a whole: its BEGIN goes
// there with the first statement, if that is proven to read. Nothing but proven reads is
// ever sent there. What ends the block is answered here, and the connection is rolled back
// by whoever takes it back.
//
// In READ COMMITTED each statement has a snapshot of its own, so the block can go on on the
// primary at any statement that the replica cannot serve, behind the barrier: it must not
// show less than the replica has shown. In REPEATABLE READ it cannot, once there is a
// snapshot: it runs on a replica only where the session asks for one, and a statement that
// is not proven fails it (PostgreSQL documentation, "Hot Standby: User's Overview").

// onlyReads reports whether a block with these characteristics may be on a replica as far
// as they say.
func (s *Session) onlyReads(m settings.Modes) bool {
	if !s.env.Settings().ReadOnlyOnReplicas {
		return false
	}
	switch m.Access {
	case settings.ReadWrite:
		return false
	case settings.DefaultAccess:
		if !s.readsByDefault() {
			return false
		}
	}
	switch s.isolation(m) {
	case settings.ReadUncommitted, settings.ReadCommitted:
		return true
	case settings.RepeatableRead:
		return s.values().Route == override.Replica
	}
	return false // a standby knows no serializable transactions
}

// isolation gives the isolation level of a block with these characteristics, the default
// one where it is not known.
func (s *Session) isolation(m settings.Modes) settings.Isolation {
	if level := m.Isolation; level != settings.DefaultIsolation {
		return level
	}
	value, isSet, ok := s.set.List().Value("default_transaction_isolation")
	switch {
	case isSet && ok:
		return settings.ParseIsolation(value)
	case isSet:
		return settings.DefaultIsolation
	}
	return s.env.Beginnings().Isolation
}

// readsByDefault reports whether transactions are known to be read only unless they say
// otherwise. Servers before PostgreSQL 14 do not report that.
func (s *Session) readsByDefault() bool {
	const name = "default_transaction_read_only"
	value, isSet, ok := s.set.List().Value(name)
	if isSet {
		return ok && (value == "on" || value == "true" || value == "yes" || value == "1")
	}
	for _, p := range s.shown {
		if p.Name == name {
			return p.Value == "on"
		}
	}
	return false
}

// mayStay reports whether the next statement of the block at hand may run on a replica: on
// the one that it is on, or, where nothing has run in it yet, on any.
func (s *Session) mayStay() bool {
	return s.block.replica || s.block.state == opened && !s.block.ran && s.onlyReads(s.block.modes)
}

// stays reports whether the statement at the head may run on a replica as part of a block.
// A portal with a name, or one that is executed in parts, would outlive it there.
func (s *Session) stays() bool {
	return s.verdict.Kind == verdict.Read && s.executing == nil && s.among == nil && !s.seq.portals
}

// movable reports whether the block on a replica can go on elsewhere.
func (s *Session) movable() bool {
	return !s.block.ran || s.isolation(s.block.modes) != settings.RepeatableRead
}

// notProven is the error of a statement that can neither run on the replica that has its
// transaction's snapshot nor anywhere else.
var notProven = Problem{
	Code: "0A000", Message: "cannot execute a statement that is not proven to read in a repeatable read transaction on a replica",
	Hint: "pgpilot.route is replica. Set it to primary for this transaction.",
}

// routeBlock asks for a connection for the statement at the head, in a block that no
// server has.
func (s *Session) routeBlock() {
	if s.mayStay() && s.stays() {
		s.read()
		return
	}
	s.acquire(route.Request{Reason: route.ReasonTransaction})
}

// routeThere decides where the statement at the head runs, in a block on a replica.
func (s *Session) routeThere() {
	switch {
	case s.stays() && s.movable():
		s.read()
	case s.stays():
		s.last.Reason, s.last.WaitedMicros = route.ReasonReadOnly.String(), 0
		s.enter(Granted)
	case s.movable():
		s.leaveReplica()
		s.acquire(route.Request{Reason: route.ReasonUnproven})
	default:
		s.leaveReplica()
		s.enter(Queued)
		s.Refuse(&notProven)
	}
}

// inBlock completes a request for a connection in a block: only the replica that has it
// may serve it, or the primary where that shows as much.
func (s *Session) inBlock(r *route.Request) {
	switch {
	case s.block.replica:
		by := s.held[ReplicaSlot].by
		r.Only, r.Run = route.Set(0).With(by.Backend), by.Run
	case s.block.state == opened && s.block.ran && r.Read:
		*r = route.Request{Reason: route.ReasonTransaction, Mode: r.Mode}
	}
	if s.block.state == noBlock {
		return
	}
	r.ReadOnly = r.Read
	if s.block.ran {
		r.Mode = max(r.Mode, fence.Causal)
	}
}

// goesOnIn reports whether a block on a replica goes on in the connection that is lent: it
// is the one that has it. Otherwise the block begins again there.
func (s *Session) goesOnIn(g *Grant) bool {
	switch was := s.held[ReplicaSlot]; {
	case !s.block.replica:
		return false
	case g.Slot == PrimarySlot:
		s.leaveReplica()
		return false
	case g.Server != was.by: // the one before has been taken back
		s.leftReplica(&was)
		return false
	}
	return true
}

// leaveReplica takes the block off its replica. What is left of it can begin elsewhere, if
// it has not failed.
func (s *Session) leaveReplica() { s.let(ReplicaSlot, Clean) }

// leftReplica notes that the connection with the block is let go.
func (s *Session) leftReplica(h *held) {
	s.block.replica, s.block.unsure = false, false
	s.block.state = opened
	if s.status == wire.Failed {
		s.block.state = fallen
	}
	if s.block.ran {
		s.saw(ReplicaSlot, h) // the next read sees to it
	}
}

// ranThere notes that a statement of the block on a replica has been answered.
func (s *Session) ranThere() {
	if !s.block.replica || !s.owed.empty() {
		return
	}
	h := &s.held[ReplicaSlot]
	s.block.ran, s.block.on = true, h.timeline
	if h.timeline == 0 {
		s.block.on = unproven
	}
	s.aside, s.isAside = h.by, true
	if s.status == wire.Failed {
		s.leaveReplica()
	}
}

// snapshot is a statement that does nothing but to have its transaction take a snapshot,
// as the block has done elsewhere: its characteristics cannot be changed any more.
var snapshot = []byte("SELECT")

// timedOut reports whether a server ends a session that has been idle in a transaction for
// too long.
func timedOut(msg []byte) bool { return errorCode(msg) == "25P03" }

// besides reports whether what the sequence at the head has of the router's own does not
// matter to where the rest of it runs: in a block that may be on a replica, unless it sets
// what decides that where there is a choice.
func (s *Session) besides() bool {
	return s.mayStay() && (!s.seq.tunes || s.block.replica && !s.movable())
}

// surveyPortal notes whether a message of a sequence has a portal that may be executed behind
// it: any but one without a name, of which ordinary says that there is nothing else to it. here
// says that it runs what needs no server, so that it may be anywhere.
func (s *Session) surveyPortal(typ byte, name []byte, ordinary, here bool) {
	q := &s.seq
	if typ == wire.Bind && (here || q.bound != nil || len(s.here) > 0) {
		if q.bound == nil {
			q.bound = map[string]bool{}
		}
		q.bound[string(name)] = here
	}
	if here {
		q.unused = q.unused && (typ != wire.Bind || len(name) > 0)
		return
	}
	q.unused = typ == wire.Bind
	q.portals = q.portals || !ordinary || len(name) > 0
}

// boundHere reports whether a portal runs what needs no server, bound in the sequence as far
// as it has been looked at or before it.
func (s *Session) boundHere(name []byte) bool {
	if here, ok := s.seq.bound[string(name)]; ok {
		return here
	}
	return s.here.find(name) != nil
}
