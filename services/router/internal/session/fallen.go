package session

import "github.com/pgpilot/pgpilot/libs/wire"

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
	s.ask(Failing, func(b []byte) []byte {
		return append(s.block.modes.AppendBegin(b), ";ROLLBACK TO "+noStatement...)
	})
}

// fromFailing looks at the answer.
func (s *Session) fromFailing(b []byte) int {
	return s.answered(b, func(typ byte, msg []byte) bool {
		switch typ {
		case wire.CommandComplete, wire.NoticeResponse, wire.ErrorResponse:
			return true
		case wire.ReadyForQuery:
			if isReady(msg, wire.Failed) {
				s.applies = 0
				s.block.state = begun
				s.enter(Granted)
				return true
			}
		}
		return false
	})
}

// failElsewhere has the statement at the head go on without the connection that was lost
// while its transaction was made to fail.
func (s *Session) failElsewhere() {
	if !s.tires(&lostConnection) {
		s.routeBlock()
	}
}
