package fence

import "github.com/pgpilot/pgpilot/libs/lsn"

// Server is one run of one backend, as the topology numbers them.
type Server struct {
	Backend int
	Run     uint32
}

// State is one session's fence. The zero value asks for nothing.
type State struct {
	position lsn.Position
	// wrote counts the statements that may have written; settled is its value up to
	// which position covers them.
	wrote, settled uint64
	writer         Server
	// mixed says that the writes not covered were answered by different servers.
	mixed bool
}

// Restore gives the fence of a session that has moved here.
func Restore(at lsn.Position) State { return State{position: at} }

// Position gives the position that reads need. While the fence is dirty, it is
// not enough.
func (s *State) Position() lsn.Position { return s.position }

// Dirty reports that a write is not covered by Position yet.
func (s *State) Dirty() bool { return s.wrote != s.settled }

// Wrote makes the fence dirty: a statement that may write is on its way to the
// given server.
func (s *State) Wrote(by Server) {
	s.mixed = s.Dirty() && (s.mixed || by != s.writer)
	s.wrote++
	s.writer = by
}

// Mark stands for the writes so far; it is given back to Settle.
func (s *State) Mark() uint64 { return s.wrote }

// Settle raises the fence to a position read by a probe that started after every
// write up to mark was answered. It reports false when the probe's server is not
// the one that answered every write not covered so far: such a write may have been
// lost with its server's end. The fence is settled all the same, on what exists now.
func (s *State) Settle(mark uint64, at lsn.Position, by Server) (sure bool) {
	if mark <= s.settled {
		return true
	}
	s.position = lsn.Max(s.position, at)
	s.settled = mark
	return by == s.writer && !s.mixed
}

// Probe is what a probe of the primary has read.
type Probe struct {
	Position lsn.Position
	Server   Server
}
