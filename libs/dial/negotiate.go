package dial

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/tlsrelay"
)

// sslRequest is the code of an SSLRequest (PostgreSQL documentation, "Message
// Formats").
const sslRequest = 1234<<16 | 5679

// negotiation is the encryption of one connection.
type negotiation struct {
	secure   *tls.Config // nil: none is asked for
	optional bool
	// encrypted says that the server agreed.
	encrypted bool
}

// handshakeError is a failure of TLS itself.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "negotiate TLS with the server: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// errNoTLS reports a server that has no TLS where it is not optional.
var errNoTLS = errors.New("the server does not offer TLS, which server_tls.sslmode demands: set ssl = on there, or another sslmode here")

// blames says that an attempt failed for a reason that one without encryption might
// not have: TLS itself, or, over TLS, pg_hba.conf (28000).
func (n *negotiation) blames(err error) bool {
	var failed *handshakeError
	if errors.As(err, &failed) {
		return true
	}
	var pg *pgconn.PgError
	return n.encrypted && errors.As(err, &pg) && pg.Code == "28000"
}

// open makes a connection's encryption. It closes the connection if it fails.
func (n *negotiation) open(ctx context.Context, c net.Conn) (net.Conn, error) {
	if n.secure == nil {
		return c, nil
	}
	secured, err := n.ask(ctx, c)
	if err != nil {
		c.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return c, err
	}
	return secured, nil
}

func (n *negotiation) ask(ctx context.Context, c net.Conn) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }) // fails only on a closed connection
	request := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), sslRequest)
	answer := []byte{0}
	_, err := c.Write(request)
	if err == nil {
		// Not a byte more: what follows is TLS, or an attacker's (CVE-2021-23222).
		_, err = io.ReadFull(c, answer)
	}
	if !stop() || err != nil {
		return nil, fmt.Errorf("ask the server for TLS: %w", errors.Join(ctx.Err(), err))
	}
	switch answer[0] {
	case 'S':
	case 'N':
		if n.optional {
			return c, nil
		}
		return nil, errNoTLS
	default: // an error message of a server that cannot even start a process, or no server
		return nil, &handshakeError{fmt.Errorf("it answered %q", answer)}
	}
	n.encrypted = true
	t := tls.Client(tlsrelay.Carry(c), n.secure)
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, &handshakeError{err}
	}
	return t, nil
}
