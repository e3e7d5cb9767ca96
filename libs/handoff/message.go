package handoff

import (
	"encoding/json"
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
	// TypeSession hands a session over; its first descriptor is the client's. Body:
	// a record's payload. It is answered with TypeAck or TypeRefuse.
	TypeSession Type = 'S'
	// TypeCancel asks for the cancellation of what a session runs. Body: CancelKey.
	TypeCancel Type = 'C'
	// TypeLeave asks for sessions to end at their next safe point, with 57P01: whatever
	// carries their clients' bytes is going away. Those that are not the router's are
	// none of its business. Body: Leave.
	TypeLeave Type = 'L'
	// TypeAck (router to listener) takes ownership of a session. Body: SessionRef.
	TypeAck Type = 'A'
	// TypeRefuse (router to listener) leaves a session with its sender. Body:
	// SessionRef with a reason.
	TypeRefuse Type = 'R'
	// TypeEnded (router to listener) says that sessions have ended. Body: Ended.
	TypeEnded Type = 'E'
)

// Hello introduces a service to its peer.
type Hello struct {
	V       int    `json:"v"`
	Service string `json:"service"`
	ID      string `json:"id"`
	// Sessions are those a router owns at this moment, by id, so that a listener
	// that has restarted knows its limits exactly.
	Sessions []string `json:"sessions,omitempty"`
}

// SessionRef names a session.
type SessionRef struct {
	Session string `json:"session"`
	Reason  string `json:"reason,omitempty"`
}

// Leave names sessions that are to end.
type Leave struct {
	Sessions []string `json:"sessions"`
}

// Ended names sessions that are no more.
type Ended struct {
	Sessions []string `json:"sessions"`
}

// Message is one message with the descriptors that came with it. Whoever gets a
// Message from Receive owns its descriptors.
type Message struct {
	Type Type
	Body []byte
	FDs  []int
}

// Unmarshal reads a JSON body.
func (m *Message) Unmarshal(v any) error {
	if err := json.Unmarshal(m.Body, v); err != nil {
		return fmt.Errorf("decode %q message: %w", m.Type, err)
	}
	return nil
}
