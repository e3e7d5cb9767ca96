package fence

import "github.com/pgpilot/pgpilot/libs/lsn"

// Baggage is what of a State travels between routers. Numbers do not: they count
// events here. Servers are numbered otherwise there, so whoever sends it says which
// they are.
type Baggage struct {
	Position lsn.Position
	// Dirty says that a write is not covered by Position yet; Writer has answered it,
	// the zero Server if there were several.
	Dirty  bool
	Writer Server
	// Home is where the session has read last, zero if that does not matter, and
	// Timeline that of the replica, zero for the primary. Unsettled says that what it has
	// seen is not covered yet.
	Home      Server
	Timeline  lsn.Timeline
	Unsettled bool
}

// Depart gives what travels. Reads that have arrived and wait for a probe do so again
// where they arrive next.
func (s *State) Depart() Baggage {
	b := Baggage{Position: s.position, Dirty: s.Dirty(), Home: s.home, Timeline: s.timeline, Unsettled: s.seen > s.settled}
	if b.Dirty && !s.mixed {
		b.Writer = s.writer
	}
	return b
}

// Arrive gives the fence of a session that has moved here. What is not covered is
// settled by a probe that starts from now on, which is later than it had to be.
func Arrive(b Baggage) State {
	s := State{position: b.Position, home: b.Home, timeline: b.Timeline}
	if b.Home != (Server{}) || b.Unsettled {
		s.clock++
		s.seen = s.clock
		if !b.Unsettled {
			s.settled = s.clock
		}
	}
	if b.Dirty {
		s.Wrote(b.Writer)
	}
	return s
}
