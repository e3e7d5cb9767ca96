package session

// Phase is what a session is waiting for.
type Phase uint8

const (
	// Login: a first connection, whose parameters the client will be told. Nothing
	// is read from the client.
	Login Phase = iota
	// Idle: the client's next message. A server connection may be held: a
	// transaction is open, the session is pinned, or the pool lends per session.
	Idle
	// Judging: the classifier's verdict on the statement at the head of the client's
	// unread bytes.
	Judging
	// Settling: the read at the head needs a fence that is not settled yet.
	Settling
	// Queued: a server connection for the statement at the head.
	Queued
	// Applying: the connection's answer to the session's settings, which it is given
	// before the statement at the head.
	Applying
	// Failing: the connection's answer to what makes its transaction fail, as the
	// client's has, before the statement at the head.
	Failing
	// Granted: nothing; the statement at the head goes to the granted connection as
	// soon as its bytes are looked at again.
	Granted
	// Refused: nothing; the statement at the head will be answered with an error as
	// soon as its bytes are looked at again.
	Refused
	// Busy: the server's answers to what was sent. In an extended-protocol sequence
	// and while copying in, the client's messages go on being forwarded.
	Busy
	// Skipping: the Sync that ends a failed extended-protocol sequence.
	Skipping
	// Passing: the end of either side. All that they say is passed on: a connection
	// for replication.
	Passing
	// Closed: nothing. The owner closes the client's socket.
	Closed
	// Departed: nothing. The session goes on elsewhere.
	Departed
)

var phaseNames = [...]string{"login", "idle", "judging", "settling", "queued", "applying", "failing", "granted", "refused", "busy", "skipping", "passing", "closed", "departed"}

// String gives the name used in logs and test scripts.
func (p Phase) String() string { return phaseNames[p] }

// enter is the only place where the phase changes.
func (s *Session) enter(p Phase) {
	s.phase = p
	s.steps++
}
