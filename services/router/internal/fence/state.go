package fence

import "github.com/pgpilot/pgpilot/libs/lsn"

// Server is one run of one backend, as the topology numbers them.
type Server struct {
	Backend int
	Run     uint32
}

// State is one session's fence. The zero value asks for nothing.
//
// Everything that a position has to cover gets a number: a write when it is
// forwarded, a read when its answer has ended (causal), a read when it arrives
// (linear). A probe settles all numbers up to the mark that was taken before it
// started.
type State struct {
	position lsn.Position
	// clock is the last number given, settled the last one that position covers.
	clock, settled uint64
	// written is the number of the last write, answered by writer. mixed says that the
	// writes not covered were answered by different servers.
	written uint64
	writer  Server
	mixed   bool
	// seen is the number of the last read whose answer has ended, on home, which was a
	// replica on that timeline, or the primary where it is zero.
	seen     uint64
	home     Server
	timeline lsn.Timeline
	// arrived is the number of the last read that must see all that was acknowledged
	// before it arrived.
	arrived uint64
}

// Position gives the position that reads need. While the fence is dirty, it is
// not enough.
func (s *State) Position() lsn.Position { return s.position }

// Raise makes reads need the position too, as a token asks for.
func (s *State) Raise(at lsn.Position) { s.position = lsn.Max(s.position, at) }

// Dirty reports that a write is not covered by Position yet.
func (s *State) Dirty() bool { return s.written > s.settled }

// Wrote makes the fence dirty: a statement that may write is on its way to the
// given server.
func (s *State) Wrote(by Server) {
	s.mixed = s.Dirty() && (s.mixed || by != s.writer)
	s.clock++
	s.written, s.writer = s.clock, by
}

// Settled reports whether all that a session in the mode needs is covered by Position.
func (s *State) Settled(m Mode) bool {
	return !m.Fenced() || s.written <= s.settled && (m < Linear || s.arrived <= s.settled) && (m < Causal || s.seen <= s.settled)
}

// Mark stands for everything so far; it is given back to Settle.
func (s *State) Mark() uint64 { return s.clock }

// Settle raises the fence to a position read by a probe that started after
// everything up to mark. It reports false when the probe's server is not the one
// that answered every write not covered so far, or is on another timeline than the
// reads: such a write, or what such a read saw, may have been lost with its
// server's end. The fence is settled all the same, on what exists now.
func (s *State) Settle(mark uint64, at lsn.Position, by Server) (sure bool) {
	if mark <= s.settled {
		return true
	}
	sure = true
	if s.Dirty() {
		sure = by == s.writer && !s.mixed
	}
	if s.seen > s.settled && s.seen <= mark {
		sure = sure && s.shares(at, by)
	}
	s.position = lsn.Max(s.position, at)
	s.settled = mark
	return sure
}

// Parted reports whether the given run of the primary, on that timeline, may lack what
// the session has written or seen: another one has answered, or a replica of another
// timeline. It does so once.
func (s *State) Parted(from Server, on lsn.Timeline) bool {
	parted := false
	if s.Dirty() && (s.mixed || s.writer != from) {
		s.writer, s.mixed, parted = from, false, true
	}
	if s.seen > s.settled && !s.shares(lsn.Position{Timeline: on}, from) {
		s.seen, parted = 0, true
	}
	return parted
}

// Probe is what a probe of the primary has read.
type Probe struct {
	Position lsn.Position
	Server   Server
}
