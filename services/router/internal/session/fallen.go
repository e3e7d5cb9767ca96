package session

import (
	"encoding/binary"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// A block that has failed where no server had it is made on the primary, and made to fail
// there, when the client does anything in it but to end it: what a server says in a failed
// transaction depends on what it is told.

// fell notes that the server has refused to begin the block. The statement behind BEGIN
// has been discarded.
func (s *Session) fell() {
	s.block.state, s.block.unsure, s.block.replica, s.status = fallen, false, false, wire.Failed
	if !s.extended {
		s.block.resync = true
		s.resync()
	}
}

// resync sends the Sync that a server waits for which has discarded a simple query, once
// all of that query has been sent.
func (s *Session) resync() {
	if !s.block.resync || s.fromClient > 0 {
		return
	}
	s.block.resync = false
	s.owed.sent(owed{typ: wire.Sync})
	from := len(s.built)
	s.built = append(s.built, wire.Sync, 0, 0, 0, 4)
	s.do(Action{Op: OpToServer, Slot: s.at, Data: s.built[from:]})
}

// fallHere notes that the statement at the head has failed before a server had its
// block.
func (s *Session) fallHere() {
	if s.block.replica {
		s.leaveReplica()
	}
	if s.block.state == opened {
		s.block.state, s.status = fallen, wire.Failed
	}
}

// failThere does that on the connection in use.
func (s *Session) failThere() {
	s.enter(Failing)
	s.held[s.at].statements.dropUnnamed()
	from := len(s.built)
	s.built = append(s.built, wire.Query, 0, 0, 0, 0)
	s.built = append(s.block.modes.AppendBegin(s.built), ";ROLLBACK TO "+noStatement+"\x00"...)
	binary.BigEndian.PutUint32(s.built[from+1:], uint32(len(s.built)-from-1))
	s.do(Action{Op: OpToServer, Slot: s.at, Data: s.built[from:]})
}

// fromFailing looks at the answer.
func (s *Session) fromFailing(b []byte) int {
	used := 0
	for s.phase == Failing {
		typ, total, err := wire.Header(b[used:])
		if err == nil && (total == 0 || total > len(b)-used && total <= maxHeld) {
			return used
		}
		if err != nil || total > len(b)-used {
			s.ServerLost(s.at)
			return len(b)
		}
		msg := b[used : used+total]
		used += total
		switch typ {
		case wire.CommandComplete:
		case wire.ParameterStatus:
			s.reported(msg)
		case wire.NoticeResponse, wire.ErrorResponse:
			if farewell(typ, msg) {
				s.ServerLost(s.at)
				return len(b)
			}
		case wire.ReadyForQuery:
			if len(msg) <= wire.HeaderSize || msg[wire.HeaderSize] != wire.Failed {
				s.ServerLost(s.at)
				return len(b)
			}
			s.applies = 0
			s.block.state = begun
			s.enter(Granted)
		default:
			s.ServerLost(s.at)
			return len(b)
		}
	}
	return used
}

// failElsewhere has the statement at the head go on without the connection that was lost
// while its transaction was made to fail.
func (s *Session) failElsewhere() {
	s.applies++
	if s.applies > maxApplies {
		s.applies = 0
		s.enter(Queued)
		s.Refuse(&lostConnection)
		return
	}
	s.routeBlock()
}
