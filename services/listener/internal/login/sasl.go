package login

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/scram"
	"github.com/pgpilot/pgpilot/services/listener/internal/refusal"
	"github.com/pgpilot/pgpilot/services/listener/internal/startup"
)

const (
	mechanism = "SCRAM-SHA-256"
	// maxMessage bounds a message with its length, as PostgreSQL does
	// (PG_MAX_SASL_MESSAGE_LENGTH).
	maxMessage = 1024
)

// authenticate runs the exchange up to AuthenticationOk.
func (g *Gate) authenticate(ctx context.Context, c startup.Conn, book *scram.Book, p *startup.Packet) error {
	err := g.exchange(ctx, c, book, p)
	var m *scram.Malformed
	switch {
	case errors.As(err, &m):
		return &refusal.Refusal{Code: m.Code, Message: m.Message, Detail: m.Detail}
	case errors.Is(err, scram.ErrDenied), errors.Is(err, errMessageLength):
		g.throttle.Failed(guess(c, p.User))
		return &Denied{
			Refusal: refusal.New(refusal.InvalidPassword, `password authentication failed for user "%s"`, p.User),
			User:    p.User,
			Known:   book.Knows(p.User),
		}
	}
	return err
}

func (g *Gate) exchange(ctx context.Context, c startup.Conn, book *scram.Book, p *startup.Packet) error {
	negotiation, err := p.Negotiation()
	if err != nil {
		return err
	}
	if err := send(c, negotiation, &pgproto3.AuthenticationSASL{AuthMechanisms: []string{mechanism}}); err != nil {
		return err
	}
	first, err := receiveFirst(c)
	if err != nil {
		return err
	}
	ex, err := book.Begin(p.User)
	if err != nil {
		return err
	}
	challenge, err := ex.First(first)
	if err != nil {
		return err
	}
	if err := send(c, nil, &pgproto3.AuthenticationSASLContinue{Data: challenge}); err != nil {
		return err
	}
	final, err := receive(c)
	if err != nil {
		return err
	}
	if err := g.throttle.Wait(ctx, guess(c, p.User)); err != nil {
		return fmt.Errorf("wait for the login throttle: %w", err)
	}
	proof, err := ex.Final(final)
	if err != nil {
		return err
	}
	return send(c, nil, &pgproto3.AuthenticationSASLFinal{Data: proof}, &pgproto3.AuthenticationOk{})
}

// receiveFirst reads the client-first-message. It comes with the name of the
// mechanism, or, from a client that left it out there, by itself after an empty
// challenge.
func receiveFirst(c startup.Conn) ([]byte, error) {
	b, err := receive(c)
	if err != nil {
		return nil, err
	}
	name, rest, ok := bytes.Cut(b, []byte{0})
	switch {
	case !ok:
		return nil, refusal.New(refusal.ProtocolViolation, "invalid string in message")
	case string(name) != mechanism:
		return nil, refusal.New(refusal.ProtocolViolation, "client selected an invalid SASL authentication mechanism")
	case len(rest) < 4:
		return nil, refusal.New(refusal.ProtocolViolation, "insufficient data left in message")
	}
	n, rest := int32(binary.BigEndian.Uint32(rest)), rest[4:]
	switch {
	case n == -1 && len(rest) == 0:
		if err := send(c, nil, &pgproto3.AuthenticationSASLContinue{}); err != nil {
			return nil, err
		}
		return receive(c)
	case n < 0 || int(n) > len(rest):
		return nil, refusal.New(refusal.ProtocolViolation, "insufficient data left in message")
	case int(n) < len(rest):
		return nil, refusal.New(refusal.ProtocolViolation, "invalid message format")
	}
	return rest, nil
}

// errMessageLength reports a length no response has; PostgreSQL calls that a
// failed authentication.
var errMessageLength = errors.New("length of a SASL response is out of range")

// receive reads the body of one response, and not a byte more.
func receive(c io.Reader) ([]byte, error) {
	var header [5]byte
	if _, err := io.ReadFull(c, header[:1]); err != nil {
		return nil, fmt.Errorf("read SASL response: %w", err)
	}
	if header[0] != 'p' {
		return nil, refusal.New(refusal.ProtocolViolation, "expected SASL response, got message type %d", header[0])
	}
	if _, err := io.ReadFull(c, header[1:]); err != nil {
		return nil, fmt.Errorf("read SASL response: %w", err)
	}
	n := binary.BigEndian.Uint32(header[1:])
	if n < 4 || n > maxMessage {
		return nil, errMessageLength
	}
	b := make([]byte, n-4)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, fmt.Errorf("read SASL response: %w", err)
	}
	return b, nil
}

func send(c io.Writer, b []byte, messages ...pgproto3.BackendMessage) error {
	var err error
	for _, m := range messages {
		if b, err = m.Encode(b); err != nil {
			return fmt.Errorf("encode authentication request: %w", err)
		}
	}
	if _, err = c.Write(b); err != nil {
		return fmt.Errorf("send authentication request: %w", err)
	}
	return nil
}
