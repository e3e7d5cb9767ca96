package handoff

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// RecordVersion is the newest version of Record that this build writes. Fields are only
// added; a record of a newer version is refused. A record is of the oldest version that
// has all of its fields.
//
// Version 2 has Prepared.SQL.
const RecordVersion = 2

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

// Live is what a router knows of a session it has served.
type Live struct {
	// Shown are the ParameterStatus values the client was last told.
	Shown []Parameter `json:"shown,omitempty"`
	// Fence is the position the session's reads need.
	Fence Fence `json:"fence"`
	// Pin says why the session is bound to its primary connection, empty if it is
	// not.
	Pin string `json:"pin,omitempty"`
	// LastRoute is what SHOW pgpilot.last_route answers.
	LastRoute *Route `json:"last_route,omitempty"`
	// Settings are the run-time parameters that the client has set with SET, in the
	// order in which it has.
	Settings []Setting `json:"settings,omitempty"`
	// Prepared are the statements that the client has prepared with Parse (PostgreSQL
	// documentation: "Message Flow: Extended Query"), the unnamed one with an empty
	// name, and with PREPARE. Those that live in a server session are not among them.
	Prepared []Prepared `json:"prepared,omitempty"`
}

// Setting is a run-time parameter as its client has set it.
type Setting struct {
	// Name is the parameter's, in lower case.
	Name string `json:"name"`
	// SQL is what follows the word SET, in the client's encoding: every byte of it is
	// ASCII unless that is UTF8.
	SQL string `json:"sql"`
}

// Prepared is a statement that a client has prepared. Name and text are in the
// client's encoding.
type Prepared struct {
	Name []byte `json:"name,omitempty"`
	Text []byte `json:"text"`
	// SQL says that it was prepared with SQL; the text is that of the PREPARE.
	SQL bool `json:"sql,omitempty"`
	// Types are the oids of its parameters' types as far as Parse gave them.
	Types []uint32 `json:"types,omitempty"`
	// Kind, Effects and Fingerprint are its verdict. A verdict that the receiver does
	// not understand counts as that of a statement nobody has judged.
	Kind        string   `json:"kind"`
	Effects     []string `json:"effects,omitempty"`
	Fingerprint uint64   `json:"fingerprint,omitempty"`
	// Params and Rows are hashes of the descriptions that the client was told last;
	// empty: it was told none.
	Params []byte `json:"params,omitempty"`
	Rows   []byte `json:"rows,omitempty"`
}

// Fence is a session's fence.
type Fence struct {
	Position lsn.Position `json:"position"`
	// Dirty says that a statement that may have written is not settled yet; Writer
	// is the incarnation of the server that answered it.
	Dirty  bool            `json:"dirty,omitempty"`
	Writer lsn.Incarnation `json:"writer"`
}

// Route is where a statement ran and why.
type Route struct {
	Backend string       `json:"backend"`
	Role    string       `json:"role"`
	Reason  string       `json:"reason"`
	Fence   lsn.Position `json:"fence"`
	Replay  lsn.Position `json:"replay"`
	// WaitedMicros is how long the statement waited for its fence and a connection.
	WaitedMicros int64 `json:"waited_us"`
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
// session may have.
func (r *Record) ServerStartup() []Parameter {
	if r.Replication == "" {
		return r.Startup
	}
	return append(slices.Clone(r.Startup), Parameter{Name: "replication", Value: r.Replication})
}

// encode gives the payload: the JSON's length, the JSON, the unread bytes.
func (r *Record) encode() ([]byte, error) {
	r.V = 1
	if r.Live != nil && slices.ContainsFunc(r.Live.Prepared, func(p Prepared) bool { return p.SQL }) {
		r.V = RecordVersion
	}
	js, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode session record: %w", err)
	}
	if len(js) > MaxRecord {
		return nil, fmt.Errorf("encode session record: %d bytes are more than the limit of %d", len(js), MaxRecord)
	}
	b := make([]byte, 0, 4+len(js)+len(r.Unread))
	b = append(b, byte(len(js)>>24), byte(len(js)>>16), byte(len(js)>>8), byte(len(js)))
	b = append(b, js...)
	return append(b, r.Unread...), nil
}

// DecodeRecord reads a record's payload. Unread aliases b.
func DecodeRecord(b []byte) (*Record, error) {
	if len(b) < 4 {
		return nil, errors.New("decode session record: shorter than its length")
	}
	n := int64(b[0])<<24 | int64(b[1])<<16 | int64(b[2])<<8 | int64(b[3])
	if n > MaxRecord || n > int64(len(b)-4) {
		return nil, fmt.Errorf("decode session record: %d bytes of JSON in a payload of %d", n, len(b))
	}
	var r Record
	if err := json.Unmarshal(b[4:4+n], &r); err != nil {
		return nil, fmt.Errorf("decode session record: %w", err)
	}
	if r.V < 1 || r.V > RecordVersion {
		return nil, fmt.Errorf("decode session record: version %d is not one of 1 to %d; update this service", r.V, RecordVersion)
	}
	if r.Session == "" || r.User == "" || r.Database == "" {
		return nil, errors.New("decode session record: it names no session, user or database")
	}
	r.Unread = b[4+n:]
	return &r, nil
}
