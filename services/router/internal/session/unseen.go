package session

import (
	"encoding/binary"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// What a session asks on a connection before a request, and what the server answers, is
// unseen: the client gets none of it but the parameters that are reported.

// ask sends a simple query of the router's own on the connection in use and enters the
// phase in which it is answered. add appends its text.
func (s *Session) ask(phase Phase, add func([]byte) []byte) {
	s.enter(phase)
	s.held[s.at].statements.dropUnnamed()
	from := len(s.built)
	s.built = append(add(append(s.built, wire.Query, 0, 0, 0, 0)), 0)
	binary.BigEndian.PutUint32(s.built[from+1:], uint32(len(s.built)-from-1))
	s.do(Action{Op: OpToServer, Slot: s.at, Data: s.built[from:]})
}

// answered gives take each message of b that answers what has been asked, for as long as
// the session is in the phase that it is in, and gives how much it has used. After a
// message that take does not expect, the connection is lost.
func (s *Session) answered(b []byte, take func(typ byte, msg []byte) (expected bool)) int {
	used := 0
	for during := s.phase; s.phase == during; {
		typ, msg, more := unseen(b[used:])
		if more {
			return used
		}
		used += len(msg)
		switch {
		case typ == wire.ParameterStatus && msg != nil:
			s.reported(msg)
		case msg == nil || !take(typ, msg):
			s.ServerLost(s.at)
			return len(b)
		}
	}
	return used
}

// unseen gives the first message of b, if it is whole; more says that the rest of it is to
// come. Where there is neither, the connection is of no further use: it is not a message,
// or a longer one than any that is expected, or the server says that it ends.
func unseen(b []byte) (typ byte, msg []byte, more bool) {
	typ, total, err := wire.Header(b)
	switch {
	case err == nil && (total == 0 || total > len(b) && total <= maxHeld):
		return typ, nil, true
	case err != nil || total > len(b) || farewell(typ, b[:total]):
		return typ, nil, false
	}
	return typ, b[:total], false
}

// isReady reports whether a ReadyForQuery has this status.
func isReady(msg []byte, status byte) bool {
	return len(msg) > wire.HeaderSize && msg[wire.HeaderSize] == status
}

// maxApplies is how many connections in a row may be lost, or too slow, while they
// are made ready for a statement before it fails.
const maxApplies = 8

// tires counts one of them. It reports true if that was one too many, and fails the
// statement at the head with the problem.
func (s *Session) tires(p *Problem) bool {
	if s.applies++; s.applies <= maxApplies {
		return false
	}
	s.applies = 0
	s.enter(Queued)
	s.Refuse(p)
	return true
}
