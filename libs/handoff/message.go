package handoff

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ProtocolVersion is the version of the messages between services.
const ProtocolVersion = 1

// Type tells the messages apart.
type Type byte

// Messages. The direction is listener to router unless said otherwise.
const (
	// TypeHello opens a connection, in both directions. Body: Hello.
	TypeHello Type = 'H'
	// TypeSession hands a session over; its first descriptor is the client's, those of
	// leased server connections follow. Body: a record's payload. It is answered with
	// TypeAck or TypeRefuse. A router hands one over to a listener that parks.
	TypeSession Type = 'S'
	// TypeCancel asks for the cancellation of what a session runs. Body: Cancel. A router
	// sends it on to the listener that has taken the session, listeners to each other.
	TypeCancel Type = 'C'
	// TypeLeave asks for sessions to end at their next safe point, with 57P01: whatever
	// carries their clients' bytes is going away. Those that are not the router's are
	// none of its business. Body: Leave. It is sent on as TypeCancel is.
	TypeLeave Type = 'L'
	// TypeAck (by who has been handed one) takes ownership of a session. Body:
	// SessionRef.
	TypeAck Type = 'A'
	// TypeRefuse (likewise) leaves a session with its sender. Body: SessionRef with a
	// reason.
	TypeRefuse Type = 'R'
	// TypeEnded (router to listener, or between listeners) says that sessions have ended.
	// Body: Ended.
	TypeEnded Type = 'E'
	// TypeCanceled (by who was sent one) says that nothing is left to be done about a
	// TypeCancel. Body: Canceled. Only those whose Hello says so send it.
	TypeCanceled Type = 'D'
	// TypeBegan (router to listener) says that sessions are the router's now which it was
	// not handed by this listener. Body: Began.
	TypeBegan Type = 'B'
	// TypeMoved (router to listener) says that sessions have left the router for somewhere
	// else than this listener. Body: Moved.
	TypeMoved Type = 'M'
	// TypeArrived (listener to router) says that nothing has to be waited for any more on behalf
	// of sessions that the listener has taken: another router has them, there is none, or they
	// have ended. Only those whose Hello says so send it. Body: Arrived.
	TypeArrived Type = 'P'
	// TypeStopping (router to listener) says that the router takes no more sessions and
	// gives away those that it has. It has no body.
	TypeStopping Type = 'Q'
	// TypeShed asks a router to give some of its idle sessions away: another one has few.
	// Body: Shed.
	TypeShed Type = 'G'
	// TypeShare (between listeners) asks for the listening sockets, and answers with them
	// as its descriptors, in the order of Share.Kinds. Body: Share.
	TypeShare Type = 'F'
)

// Shed says how many sessions a router is to give away.
type Shed struct {
	Sessions int `json:"sessions"`
}

// Share says what a listener listens on.
type Share struct {
	// Listen, ListenUnix and Metrics are the addresses as in the configuration: sockets for
	// other ones are of no use to who asks.
	Listen     string `json:"listen"`
	ListenUnix string `json:"listen_unix"`
	Metrics    string `json:"metrics_addr"`
	// Kinds says what the descriptors are: "tcp" and "unix" listen for clients, "lock" is the
	// lock file of the Unix socket and "metrics" listens on the address for metrics. It is
	// empty in a request, and in the answer of a listener that has something else.
	Kinds []string `json:"kinds,omitempty"`
}

// Cancel is a request to cancel what a session runs.
type Cancel struct {
	CancelKey
	// Request numbers it on its connection; 0: no answer is wanted.
	Request uint64 `json:"request,omitempty"`
}

// Canceled answers a Cancel: from now on it stops nothing any more. The server has been
// asked and that request's connection is closed, or there was nothing to cancel.
type Canceled struct {
	Request uint64 `json:"request"`
	// Found says that the key is that of one of the sessions there.
	Found bool `json:"found,omitempty"`
}

// SessionRef names a session.
type SessionRef struct {
	Session string `json:"session"`
	Reason  string `json:"reason,omitempty"`
	// Alone says that the reason is this session's own: others may be offered meanwhile.
	Alone bool `json:"alone,omitempty"`
}

// Leave names sessions that are to end.
type Leave struct {
	Sessions []string `json:"sessions"`
}

// Ended names sessions that are no more.
type Ended struct {
	Sessions []string `json:"sessions"`
}

// Began names sessions that a router has begun.
type Began struct {
	Sessions []string `json:"sessions"`
}

// Moved names sessions that have left a router.
type Moved struct {
	Sessions []string `json:"sessions"`
}

// Arrived names sessions that are not on their way any more.
type Arrived struct {
	Sessions []string `json:"sessions"`
}

// Message is one message with the descriptors that came with it. Whoever gets a
// Message from Receive owns its descriptors.
type Message struct {
	Type Type
	Body []byte
	FDs  []int
	// Lost says that descriptors have come with it for which this process had no room. FDs
	// is empty then.
	Lost bool
}

// ErrLost is what to say of a session whose descriptors are lost.
var ErrLost = errors.New("there are no free file descriptors for it here: raise the limit of open files")

// Unmarshal reads a JSON body.
func (m *Message) Unmarshal(v any) error {
	if err := json.Unmarshal(m.Body, v); err != nil {
		return fmt.Errorf("decode %q message: %w", m.Type, err)
	}
	return nil
}
