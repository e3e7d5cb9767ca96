package handoff

import "fmt"

// Hello introduces a service to its peer.
type Hello struct {
	V       int    `json:"v"`
	Service string `json:"service"`
	ID      string `json:"id"`
	// Sessions are those a router owns at this moment, by id, so that a listener
	// that has restarted knows its limits exactly.
	Sessions []string `json:"sessions,omitempty"`
	// Answers says that cancel requests that have a number are answered. Those of earlier
	// releases do not.
	Answers bool `json:"answers_cancels,omitempty"`
	// Parks says that a listener takes sessions back, for another router.
	Parks bool `json:"parks,omitempty"`
	// Tells says that a listener tells of the arrival of sessions that it has taken.
	Tells bool `json:"tells_arrivals,omitempty"`
}

// Greeted receives the greeting that opens a connection, from a peer that must be of the
// service. The error is io.EOF if the peer has closed the connection without a word, and
// says otherwise why nothing can be made of it.
func (c *Conn) Greeted(by string) (*Hello, error) {
	m, err := c.Receive()
	if err != nil {
		return nil, err
	}
	CloseFDs(m.FDs)
	if m.Type != TypeHello {
		return nil, fmt.Errorf("greet %s: it opened with a %q message", by, m.Type)
	}
	var h Hello
	if err := m.Unmarshal(&h); err != nil {
		return nil, err
	}
	if h.V != ProtocolVersion || h.Service != by {
		return nil, fmt.Errorf("greet %s: %s %s is there, which speaks version %d instead of %d: run services of one release", by, h.Service, h.ID, h.V, ProtocolVersion)
	}
	return &h, nil
}
