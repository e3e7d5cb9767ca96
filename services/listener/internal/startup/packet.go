package startup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/services/listener/internal/refusal"
)

// Protocol versions, major<<16 | minor.
const (
	// Version30 is what nearly every client speaks.
	Version30 uint32 = 3 << 16
	// Version32 differs from it in the length of cancel keys.
	Version32 uint32 = 3<<16 | 2
)

// Kind is what a packet is.
type Kind int

const (
	// Session asks for a session.
	Session Kind = iota
	// Cancel asks to cancel what another session runs.
	Cancel
	// SSL and GSS ask for encryption.
	SSL
	GSS
)

// Codes in place of a version (PostgreSQL documentation: "Message Formats").
const (
	codeCancel uint32 = 1234<<16 | 5678
	codeSSL    uint32 = 1234<<16 | 5679
	codeGSS    uint32 = 1234<<16 | 5680
)

const (
	// maxName is the longest name PostgreSQL keeps (NAMEDATALEN - 1); it cuts off
	// the rest, at a byte.
	maxName = 63
	// maxCancelSecret is the longest secret of a cancel key.
	maxCancelSecret = 256
	// protocolOption starts the name of an option of the protocol itself.
	protocolOption = "_pq_."
)

// Packet is a decoded packet. It does not alias the bytes it was read from.
type Packet struct {
	Kind Kind
	// Version is the protocol version of the session: what the client asked for, or
	// the newest known where it asked for a newer minor version.
	Version uint32
	// Negotiate says that the client must be told (NegotiateProtocolVersion) of
	// Version and of Unknown before anything else.
	Negotiate bool
	// Unknown are the options of the protocol that are not known, by full name.
	Unknown []string
	// User and Database are cut to the length of a name. Database is never empty.
	User     string
	Database string
	// Replication is what the client gave for the parameter replication, unless that
	// means no.
	Replication string
	// Parameters are all others, in the order they came.
	Parameters []handoff.Parameter
	// Key of a Cancel.
	Key handoff.CancelKey
}

// Encryption that may still be asked for. Each may be asked for once.
type Encryption struct{ SSL, GSS bool }

// Parse decodes a packet without its length. The client is told of an error that is
// a *refusal.Refusal, and of no other.
func Parse(b []byte, may Encryption) (*Packet, error) {
	if len(b) < 4 {
		return nil, badLength()
	}
	version, rest := binary.BigEndian.Uint32(b), b[4:]
	switch {
	case version == codeCancel:
		return parseCancel(rest)
	case version == codeSSL && may.SSL:
		return &Packet{Kind: SSL}, nil
	case version == codeGSS && may.GSS:
		return &Packet{Kind: GSS}, nil
	case version>>16 != 3:
		r := refusal.New(refusal.FeatureNotSupported, "unsupported frontend protocol %d.%d: server supports 3.0 to 3.%d",
			version>>16, version&0xffff, Version32&0xffff)
		r.Old = version>>16 < 3
		return nil, r
	}
	p := &Packet{Version: min(version, Version32), Negotiate: version > Version32}
	if err := p.parameters(rest); err != nil {
		return nil, err
	}
	return p, nil
}

func badLength() *refusal.Refusal {
	return refusal.New(refusal.ProtocolViolation, "invalid length of startup packet")
}

func parseCancel(b []byte) (*Packet, error) {
	if len(b) <= 4 || len(b) > 4+maxCancelSecret {
		return nil, errors.New("invalid length of cancel request packet") // never answered
	}
	return &Packet{Kind: Cancel, Key: handoff.CancelKey{PID: binary.BigEndian.Uint32(b), Secret: bytes.Clone(b[4:])}}, nil
}

// parameters reads pairs of zero-terminated strings up to a zero byte, which must
// be the last.
func (p *Packet) parameters(b []byte) error {
	for len(b) > 0 && b[0] != 0 {
		name, rest, ok := bytes.Cut(b, []byte{0})
		if !ok {
			break
		}
		value, rest, ok := bytes.Cut(rest, []byte{0})
		if !ok {
			break
		}
		b = rest
		switch n, v := string(name), string(value); {
		case n == "user":
			p.User = v
		case n == "database":
			p.Database = v
		case n == "replication":
			wanted, known := parseBool(v)
			switch {
			case v == "database" || wanted:
				p.Replication = v
			case known:
				p.Replication = ""
			default:
				return &refusal.Refusal{Code: refusal.InvalidParameter, Message: `invalid value for parameter "replication": "` + v + `"`,
					Hint: `Valid values are: "false", 0, "true", 1, "database".`}
			}
		case strings.HasPrefix(n, protocolOption):
			p.Unknown = append(p.Unknown, n)
		default:
			p.Parameters = append(p.Parameters, handoff.Parameter{Name: n, Value: v})
		}
	}
	if len(b) != 1 || b[0] != 0 {
		return refusal.New(refusal.ProtocolViolation, "invalid startup packet layout: expected terminator as last byte")
	}
	if p.User == "" {
		return refusal.New(refusal.InvalidAuthorization, "no PostgreSQL user name specified in startup packet")
	}
	if p.Database == "" {
		p.Database = p.User
	}
	p.User, p.Database = truncate(p.User), truncate(p.Database)
	p.Negotiate = p.Negotiate || len(p.Unknown) > 0
	return nil
}

// parseBool takes every spelling of a boolean that PostgreSQL takes: also any
// unambiguous beginning of a word, in any case.
func parseBool(v string) (value, known bool) {
	v = strings.ToLower(v)
	begins := func(word string, least int) bool { return len(v) >= least && strings.HasPrefix(word, v) }
	switch {
	case v == "1", begins("true", 1), begins("yes", 1), begins("on", 2):
		return true, true
	case v == "0", begins("false", 1), begins("no", 1), begins("off", 2):
		return false, true
	}
	return false, false
}

func truncate(name string) string {
	if len(name) > maxName {
		return name[:maxName]
	}
	return name
}
