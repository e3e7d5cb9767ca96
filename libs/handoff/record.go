package handoff

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// RecordVersion is the version of Record that this build writes of a session that has
// been served. Fields are only added; a record of a newer version is refused.
const RecordVersion = 2

// loginVersion is what it writes of one that comes from its login, of which the first
// version says all there is to say: a router of the release before takes it.
const loginVersion = 1

// MaxRecord bounds the JSON of a record, in bytes, without its unread bytes.
const MaxRecord = 1 << 20

// Record is a session between two owners. It never holds a password: a router
// knows users by name from its own configuration.
type Record struct {
	V int `json:"v"`
	// Session is the id on every log line of this session, unique on this host.
	Session  string `json:"session"`
	User     string `json:"user"`
	Database string `json:"database"`
	// Client is the client's address, "host:port" or "unix".
	Client string `json:"client"`
	// TLS says that the descriptor is one end of a relay to a TLS client.
	TLS bool `json:"tls,omitempty"`
	// Protocol is the negotiated version, major<<16 | minor.
	Protocol uint32 `json:"protocol"`
	// Startup holds the client's startup parameters without user, database and
	// replication, in the order they came.
	Startup []Parameter `json:"startup,omitempty"`
	// Replication is empty for an ordinary session. Otherwise the client wants a
	// connection for replication: it is what it gave for the startup parameter of that
	// name, "database" or one of PostgreSQL's spellings of true (documentation,
	// "Streaming Replication Protocol").
	Replication string `json:"replication,omitempty"`
	// Cancel is the key the client was or will be given (BackendKeyData).
	Cancel CancelKey `json:"cancel"`
	// Live is the state of a session that has already been served by a router; nil
	// for one that comes from its login.
	Live *Live `json:"live,omitempty"`
	// Unread is what was read from the client and not yet consumed. It travels
	// beside the JSON.
	Unread []byte `json:"-"`
}

// Parameter is one run-time parameter and its value.
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// CancelKey is pgpilot's own key for a session. Clients send it back in a
// CancelRequest (PostgreSQL documentation: "Canceling Requests in Progress").
type CancelKey struct {
	PID    uint32 `json:"pid"`
	Secret []byte `json:"secret"`
}

// Parameter gives the value of a startup parameter.
func (r *Record) Parameter(name string) (string, bool) {
	for _, p := range r.Startup {
		if p.Name == name {
			return p.Value, true
		}
	}
	return "", false
}

// ServerStartup gives the startup parameters of the server connections that the
// session may have, without pgpilot's own.
func (r *Record) ServerStartup() []Parameter {
	ps := withoutOwn(r.Startup)
	if r.Replication == "" {
		return ps
	}
	return append(slices.Clone(ps), Parameter{Name: "replication", Value: r.Replication})
}

// Encode gives the payload: the JSON's length, the JSON, the unread bytes. What it gives
// can be sent (Conn.SendEncoded).
func (r *Record) Encode() ([]byte, error) {
	r.V = loginVersion
	if r.Live != nil {
		r.V = RecordVersion
	}
	js, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode session record: %w", err)
	}
	if r.Live != nil && mangled(js) {
		return nil, errors.New("encode session record: it has text that is not UTF-8, which JSON does not keep")
	}
	if len(js) > MaxRecord {
		return nil, fmt.Errorf("encode session record: %d bytes are more than the limit of %d", len(js), MaxRecord)
	}
	if n := 4 + len(js) + len(r.Unread); n > maxBody {
		return nil, fmt.Errorf("encode session record: %d bytes with what is unread are more than the limit of %d", n, maxBody)
	}
	return payloadOf(js, r.Unread), nil
}

// payloadOf puts a payload together.
func payloadOf(js, unread []byte) []byte {
	b := make([]byte, 0, 4+len(js)+len(unread))
	b = binary.BigEndian.AppendUint32(b, uint32(len(js)))
	b = append(b, js...)
	return append(b, unread...)
}

// jsonOf gives the JSON of a payload.
func jsonOf(payload []byte) ([]byte, error) {
	if len(payload) < 4 {
		return nil, errors.New("decode session record: shorter than its length")
	}
	n := int64(binary.BigEndian.Uint32(payload))
	if n > MaxRecord || n > int64(len(payload)-4) {
		return nil, fmt.Errorf("decode session record: %d bytes of JSON in a payload of %d", n, len(payload))
	}
	return payload[4 : 4+n], nil
}

// mangled reports whether JSON has the escape that takes the place of what is not UTF-8.
func mangled(js []byte) bool {
	escape := []byte(`\ufffd`)
	for at := 0; ; at++ {
		i := bytes.Index(js[at:], escape)
		if i < 0 {
			return false
		}
		at += i
		before := js[:at]
		if n := len(before) - len(bytes.TrimRight(before, `\`)); n%2 == 0 {
			return true
		}
	}
}

// DecodeRecord reads a record's payload. Unread aliases b. With an error the record is nil,
// or is good for nothing but saying which session is refused.
func DecodeRecord(b []byte) (*Record, error) {
	js, err := jsonOf(b)
	if err != nil {
		return nil, err
	}
	var r Record
	if err := json.Unmarshal(js, &r); err != nil {
		return nil, fmt.Errorf("decode session record: %w", err)
	}
	if r.V < 1 || r.V > RecordVersion {
		return nameOf(&r), fmt.Errorf("decode session record: version %d is not one of 1 to %d; update this service", r.V, RecordVersion)
	}
	if r.Session == "" || r.User == "" || r.Database == "" {
		return nil, errors.New("decode session record: it names no session, user or database")
	}
	if r.Live != nil {
		if err := r.Live.check(); err != nil {
			return nameOf(&r), fmt.Errorf("decode session record: %w", err)
		}
	}
	r.Unread = bytes.Clone(b[4+len(js):]) // the rest need not be kept as long as the session
	return &r, nil
}

// nameOf gives what is to be trusted of a record that is not understood.
func nameOf(r *Record) *Record {
	if r.Session == "" {
		return nil
	}
	return &Record{Session: r.Session}
}
