package startup

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/services/listener/internal/refusal"
)

// MaxPacket bounds a packet, in bytes without its length, as PostgreSQL does
// (MAX_STARTUP_PACKET_LENGTH).
const MaxPacket = 10000

// ErrLeft reports that the client went away in the middle, or said nothing. It
// gets no answer.
var ErrLeft = errors.New("the client left before it asked for anything")

// tlsHandshake is the first byte of a connection that begins with TLS at once. As the
// length of a startup packet it would be hundreds of megabytes.
const tlsHandshake = 0x16

// Negotiate reads packets up to the one that asks for a session or a cancellation.
// TLS is made when the client asks for it and cfg is not nil, over TCP; GSSAPI
// encryption is declined. The caller sets deadlines. An error is a *refusal.Refusal, a
// *HandshakeError, ErrLeft, or the connection's.
func Negotiate(c *Client, cfg *tls.Config) (*Packet, error) {
	if c.Local() {
		cfg = nil // as PostgreSQL does
	}
	if err := direct(c, cfg); err != nil {
		return nil, err
	}
	may := Encryption{SSL: true, GSS: true}
	for {
		p, err := read(c, may)
		if err != nil {
			return nil, err
		}
		switch p.Kind {
		case SSL:
			may.SSL = false
			if cfg != nil && c.secure == nil {
				if _, err := c.Write([]byte{'S'}); err != nil {
					return nil, fmt.Errorf("agree to encryption: %w", err)
				}
				if err := c.encrypt(cfg); err != nil {
					return nil, err
				}
				may.GSS = false
				continue
			}
		case GSS:
			may.GSS = false
		default:
			return p, nil
		}
		if err := decline(c, p.Kind); err != nil {
			return nil, err
		}
	}
}

var (
	errDirectDeclined = &HandshakeError{errors.New("the client began with TLS at once, which is not served here")}
	errNoProtocol     = &HandshakeError{errors.New("received direct SSL connection request without ALPN protocol negotiation extension")}
)

// direct serves a client that does not ask before it begins with TLS (PostgreSQL 17;
// documentation, "Direct TLS"). What is refused gets no answer: there is nobody who
// would understand it.
func direct(c *Client, cfg *tls.Config) error {
	first, err := c.peek()
	switch {
	case err != nil:
		return err
	case first != tlsHandshake:
		return nil
	case cfg == nil:
		return errDirectDeclined
	}
	if err := c.encrypt(cfg); err != nil {
		return err
	}
	if c.secure.ConnectionState().NegotiatedProtocol == "" {
		return errNoProtocol
	}
	return nil
}

// decline answers a request for encryption. Bytes that are already there were sent
// before the client could know the answer: they may be an attacker's, put in front
// of the encrypted ones (CVE-2021-23222), and PostgreSQL refuses them even when it
// declines.
func decline(c *Client, k Kind) error {
	early := false
	if c.secure == nil {
		var err error
		if early, err = pending(c); err != nil {
			return err
		}
	}
	if _, err := c.Write([]byte{'N'}); err != nil {
		return fmt.Errorf("decline encryption: %w", err)
	}
	if early {
		what := "SSL"
		if k == GSS {
			what = "GSSAPI encryption"
		}
		r := refusal.New(refusal.ProtocolViolation, "received unencrypted data after %s request", what)
		r.Detail = "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack."
		return r
	}
	return nil
}

func pending(c syscall.Conn) (bool, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false, fmt.Errorf("look for unread bytes: %w", err)
	}
	var n int
	if err := raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, _ = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	}); err != nil {
		return false, fmt.Errorf("look for unread bytes: %w", err)
	}
	return n > 0, nil
}

func read(r io.Reader, may Encryption) (*Packet, error) {
	var length [4]byte
	if err := readFull(r, length[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(length[:])) - 4
	if n < 4 || n > MaxPacket {
		return nil, badLength()
	}
	b := make([]byte, n)
	if err := readFull(r, b); err != nil {
		return nil, err
	}
	return Parse(b, may)
}

func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, unix.ECONNRESET):
		return ErrLeft
	case err != nil:
		return fmt.Errorf("read startup packet: %w", err)
	}
	return nil
}

// Negotiation gives the NegotiateProtocolVersion message that the client is owed,
// or nothing.
func (p *Packet) Negotiation() ([]byte, error) {
	if !p.Negotiate {
		return nil, nil
	}
	b, err := (&pgproto3.NegotiateProtocolVersion{NewestMinorProtocol: p.Version, UnrecognizedOptions: p.Unknown}).Encode(nil)
	if err != nil {
		return nil, fmt.Errorf("encode protocol negotiation: %w", err)
	}
	return b, nil
}
