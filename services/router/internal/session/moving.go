package session

import (
	"slices"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// A session moves to another router at a safe point: nothing of the request at its
// head has been sent, or everything that was has been answered, and the answers have
// been given away. What waits for a verdict, a fence or a connection goes back to the
// bytes that nobody has looked at, which travel, too.

// Departure is a session that leaves.
type Departure struct {
	// Live is its state, nil if it has not been greeted yet: it is then as it came from
	// its login. Its fence names no servers, and its lease says only what the session
	// knows of its connection: the rest is the owner's to add.
	Live *handoff.Live
	// Unread is to be read before what the owner has of the client's bytes.
	Unread []byte
	// Writer and Home are the servers of the fence (fence.Baggage).
	Writer, Home fence.Server
}

// Arrival is what a record means where it has come to.
type Arrival struct {
	// Writer and Home are the servers of the fence, zero where they are not known.
	Writer, Home fence.Server
	// Lease is the connection that has come along, nil for none.
	Lease *Grant
}

// Safe reports whether the session could leave now.
func (s *Session) Safe() bool {
	switch s.phase {
	case Idle, Judging, Settling, Queued, Skipping:
	case Login:
		return s.rec.Replication == ""
	default:
		return false
	}
	a := &s.owed
	switch {
	case len(s.out) > 0, s.fromClient > 0, s.fromServer > 0, s.fatal, s.word != nil:
		return false
	case !a.empty(), a.open, a.copying, a.skipping, a.unsure > 0:
		return false
	case s.pins != 0 && !s.held[PrimarySlot].ok:
		return false
	case s.missing != nil, s.behind != nil, s.asking, s.blocked, s.retreating:
		return false
	}
	return s.again == nil || s.phase == Queued || s.phase == Settling
}

// Depart ends the session here, at a safe point, and gives what it is to be made of
// elsewhere. Connections that it does not need are released; the one that the lease
// tells of stays lent until its owner has given it away.
func (s *Session) Depart() Departure {
	var d Departure
	switch s.phase {
	case Login, Judging, Settling, Queued:
		s.do(Action{Op: OpWithdraw})
	}
	if s.block.replica && s.movable() {
		s.leaveReplica() // what is left of its transaction can begin anywhere
	}
	if s.again != nil {
		d.Unread = slices.Clone(s.again)
		s.forget()
	}
	if s.phase != Login {
		s.pack(&d)
	}
	for slot := range slots {
		if s.Keeps(slot) {
			s.held[slot] = held{}
			continue
		}
		s.let(slot, Clean)
	}
	s.enter(Departed)
	return d
}

// Keeps reports whether the session has the connection in the slot wherever it goes.
func (s *Session) Keeps(slot Slot) bool {
	return s.bound(slot) || slot == PrimarySlot && s.held[slot].ok && s.pins != 0
}

func (s *Session) pack(d *Departure) {
	f := s.fence.Depart()
	last := s.last
	l := &handoff.Live{
		Shown: s.shown, Pin: s.pins.String(), LastRoute: &last, Status: string(rune(s.status)), Skipping: s.phase == Skipping,
		Written: s.written, Stale: s.stale, Warned: s.warned,
		Fence: handoff.Fence{Position: f.Position, Dirty: f.Dirty, Aside: s.isAside, Given: s.given},
	}
	d.Live, d.Writer, d.Home = l, f.Writer, f.Home
	if f.Home != (fence.Server{}) || f.Unsettled {
		l.Fence.Seen = &handoff.Seen{Timeline: f.Timeline, Unsettled: f.Unsettled}
	}
	l.Block = s.block.pack()
	s.settingsLeave(l)
	l.Prepared, l.Portals = s.statementsLeave(s.status != wire.Idle)
	for slot := range slots {
		if !s.Keeps(slot) {
			continue
		}
		h := &s.held[slot]
		unsure, _ := s.set.Unsure() // a router of the previous version goes by what is used
		lease := handoff.Lease{Replica: slot == ReplicaSlot, Used: h.used || h.roleless || unsure && s.inTransaction(), Indelible: h.indelible, Stepped: h.stepped}
		if *h.settings != (settings.Hash{}) {
			lease.Settings = slices.Clone(h.settings[:])
		}
		h.statements.Pack(&lease)
		l.Leases = append(l.Leases, lease)
	}
}

// Arrive makes a session of its record. Start begins it, or has it go on.
func Arrive(rec *handoff.Record, env Env, a Arrival) *Session {
	s := &Session{env: env, rec: rec, status: wire.Idle}
	s.startOwn()
	l := rec.Live
	if l == nil {
		return s
	}
	if l.Status != "" {
		s.status = l.Status[0]
	}
	s.block.unpack(l.Block)
	s.shown = l.Shown
	for _, p := range l.Shown {
		s.escapes = s.escapes || escapes(p.Name, p.Value)
	}
	s.pins = parsePins(l.Pin)
	b := fence.Baggage{Position: l.Fence.Position, Dirty: l.Fence.Dirty, Writer: a.Writer, Home: a.Home}
	if seen := l.Fence.Seen; seen != nil {
		b.Timeline, b.Unsettled = seen.Timeline, seen.Unsettled
	}
	s.fence = fence.Arrive(b)
	s.given = l.Fence.Given
	s.aside, s.isAside = elsewhere, l.Fence.Aside
	if l.LastRoute != nil {
		s.last = *l.LastRoute
	}
	s.settingsArrive(l)
	number := s.env.Parsings().arrival()
	s.statementsArrive(l, number)
	s.written, s.stale, s.warned = l.Written, l.Stale, l.Warned
	for i := range l.Leases {
		s.stepped = s.stepped || l.Leases[i].Stepped || l.Leases[i].Idle && !l.Leases[i].Spare
	}
	if g := a.Lease; g != nil {
		lease := &l.Leases[0]
		s.held[g.Slot] = held{ok: true, used: lease.Used, indelible: lease.Indelible, stepped: lease.Stepped, by: g.Server, statements: g.Statements, settings: g.Settings, reported: g.Reported, lent: s.env.Parsings().now()}
		g.Statements.arrive(number)
		s.at = g.Slot
		s.dim = lease.Used && s.inTransaction()
		s.escapes = s.escapes || g.Reported != nil && g.Reported.escapes
		s.block.replica = g.Slot == ReplicaSlot && s.block.state == begun
		if g.Slot == ReplicaSlot {
			s.held[g.Slot].timeline = lease.Run.Timeline
		}
	}
	return s
}

// goesOn begins a session that has been served elsewhere. What an open transaction has
// written is settled when that has ended.
func (s *Session) goesOn() {
	s.enter(Idle)
	if s.rec.Live.Skipping {
		s.enter(Skipping)
	}
	s.limitIdle()
	if s.fence.Dirty() && !s.written {
		s.do(Action{Op: OpSettle, Mark: s.fence.Mark()})
	}
}
