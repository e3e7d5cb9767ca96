package session

import "github.com/pgpilot/pgpilot/services/router/internal/route"

// A connection for replication speaks another protocol behind its login, in which
// both sides send when they like (PostgreSQL documentation: "Streaming Replication
// Protocol"). It has a connection to the primary for itself, from login to end,
// and nobody looks into what passes.

// passes begins such a session: its connection is asked for.
func (s *Session) passes() {
	s.acquire(route.Request{Reason: route.ReasonReplication})
	s.enter(Login)
}

// passOn begins to pass on, once the client has been told of its connection.
func (s *Session) passOn() {
	s.bind(pinReplication)
	s.held[s.at].used = true
	s.enter(Passing)
}

// passFromClient and passFromServer pass everything on.
func (s *Session) passFromClient(b []byte) int {
	s.do(Action{Op: OpToServer, Slot: s.at, Data: b})
	return len(b)
}

func (s *Session) passFromServer(b []byte) int {
	s.do(Action{Op: OpToClient, Data: b})
	return len(b)
}
