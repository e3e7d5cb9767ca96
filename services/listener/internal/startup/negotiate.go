package startup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/services/listener/internal/refusal"
)

// MaxPacket bounds a packet, in bytes without its length, as PostgreSQL does
// (MAX_STARTUP_PACKET_LENGTH).
const MaxPacket = 10000

// Conn is a client's socket, TCP or Unix.
type Conn interface {
	net.Conn
	syscall.Conn
}

// ErrLeft reports that the client went away in the middle, or said nothing. It
// gets no answer.
var ErrLeft = errors.New("the client left before it asked for anything")

// Negotiate reads packets up to the one that asks for a session or a
// cancellation. Encryption is declined. The caller sets deadlines. An error is a
// *refusal.Refusal, ErrLeft, or the connection's.
func Negotiate(c Conn) (*Packet, error) {
	may := Encryption{SSL: true, GSS: true}
	for {
		p, err := read(c, may)
		if err != nil {
			return nil, err
		}
		switch p.Kind {
		case SSL:
			may.SSL = false
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

// decline answers a request for encryption. Bytes that are already there were sent
// before the client could know the answer: they may be an attacker's, put in front
// of the encrypted ones (CVE-2021-23222), and PostgreSQL refuses them even when it
// declines.
func decline(c Conn, k Kind) error {
	early, err := pending(c)
	if err != nil {
		return err
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
