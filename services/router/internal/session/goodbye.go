package session

import "github.com/jackc/pgx/v5/pgproto3"

// A server reads one message after the other ("Message Flow: Termination"): what a client
// has sent before its goodbye, or before the end of what it says at all, is executed first. Of
// a sequence without its Sync that is rolled back, but for what no transaction undoes.

// goodbye handles a Terminate at the head while the session is Busy, and returns how many
// bytes are used: none if it must wait.
func (s *Session) goodbye(rest []byte, run *forwarding) int {
	if s.awaitsLast(run) {
		return 0
	}
	run.flush()
	s.end()
	return len(rest)
}

// ClientDone says that the client has closed its side and that nothing is left to be looked
// at of what it has sent, but for half a message. It may be called again whenever the session
// reads.
func (s *Session) ClientDone() {
	if !s.Reads() {
		return
	}
	if s.phase == Busy {
		if s.fromClient > 0 && !s.owed.copying && s.owed.syncs > 0 {
			return // the sequences before the one with the half message
		}
		run := forwarding{s: s}
		waits := s.fromClient == 0 && s.awaitsLast(&run)
		run.flush()
		if waits {
			return
		}
	}
	s.end()
}

// awaitsLast reports whether the server still executes what the client has sent, and has the
// end of the session wait for that. A copy without its end comes to none, and what a
// failed sequence is followed by is skipped.
func (s *Session) awaitsLast(run *forwarding) bool {
	s.emitMade()
	switch {
	case s.fromServer > 0 && !s.hidden:
		// The rest of a message is on its way to the client.
	case s.owed.copying, s.owed.skipping, s.owed.empty():
		return false
	case s.owed.open:
		s.awaitAnswers(run)
	default:
		s.wait()
	}
	return true
}

// Knock sends the client something that it knows already, if it waits for the answer of a
// server and has not been given half a message: one that is not there any more answers with a
// reset of its connection.
func (s *Session) Knock() {
	if s.phase != Busy || s.fromServer > 0 && !s.hidden {
		return
	}
	for _, p := range s.shown {
		if p.Name == "in_hot_standby" {
			continue // is not shown as it is
		}
		from := len(s.scratch)
		s.encode(&pgproto3.ParameterStatus{Name: p.Name, Value: p.Value})
		s.toClient(from)
		return
	}
}
