package login

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/scram"
	"github.com/pgpilot/pgpilot/services/listener/internal/refusal"
	"github.com/pgpilot/pgpilot/services/listener/internal/startup"
)

// maxMessage bounds a message with its length, as PostgreSQL does
// (PG_MAX_SASL_MESSAGE_LENGTH).
const maxMessage = 1024

// authenticate runs the exchange up to the proof that the client is owed with its
// AuthenticationOk.
func (g *Gate) authenticate(ctx context.Context, c *startup.Client, p *Policy, packet *startup.Packet) (proof []byte, err error) {
	proof, err = g.exchange(ctx, c, p, packet)
	why := "wrong password"
	secure, _ := c.Secure()
	if err == nil && !p.TLS.Names(secure, packet.User) {
		err, why = scram.ErrDenied, "the client's certificate is another's"
	}
	var m *scram.Malformed
	switch {
	case errors.As(err, &m):
		return nil, &refusal.Refusal{Code: m.Code, Message: m.Message, Detail: m.Detail}
	case errors.Is(err, scram.ErrDenied), errors.Is(err, errMessageLength):
		g.throttle.Failed(guess(c, packet.User))
		if !p.Book.Knows(packet.User) {
			why = "no such user in the configuration"
		}
		return nil, &Denied{
			Refusal: refusal.New(refusal.InvalidPassword, `password authentication failed for user "%s"`, packet.User),
			User:    packet.User,
			Why:     why,
		}
	}
	return proof, err
}

func (g *Gate) exchange(ctx context.Context, c *startup.Client, p *Policy, packet *startup.Packet) ([]byte, error) {
	negotiation, err := packet.Negotiation()
	if err != nil {
		return nil, err
	}
	var tied scram.Binding
	offer := []string{scram.Mechanism}
	if secure, _ := c.Secure(); secure != nil && len(p.TLS.Endpoint) > 0 {
		tied.Endpoint = p.TLS.Endpoint
		offer = []string{scram.MechanismPlus, scram.Mechanism}
	}
	if err := send(c, negotiation, &pgproto3.AuthenticationSASL{AuthMechanisms: offer}); err != nil {
		return nil, err
	}
	first, err := receiveFirst(c, offer)
	if err != nil {
		return nil, err
	}
	tied.Chosen = first.mechanism == scram.MechanismPlus
	ex, err := p.Book.Begin(packet.User, tied)
	if err != nil {
		return nil, err
	}
	challenge, err := ex.First(first.message)
	if err != nil {
		return nil, err
	}
	if err := send(c, nil, &pgproto3.AuthenticationSASLContinue{Data: challenge}); err != nil {
		return nil, err
	}
	final, err := receive(c)
	if err != nil {
		return nil, err
	}
	if err := g.throttle.Wait(ctx, guess(c, packet.User)); err != nil {
		return nil, fmt.Errorf("wait for the login throttle: %w", err)
	}
	return ex.Final(final)
}

// clientFirst is a client-first-message with the mechanism it is for.
type clientFirst struct {
	mechanism string
	message   []byte
}

// receiveFirst reads the client-first-message. It comes with the name of the
// mechanism, or, from a client that left it out there, by itself after an empty
// challenge.
func receiveFirst(c io.ReadWriter, offer []string) (first clientFirst, err error) {
	b, err := receive(c)
	if err != nil {
		return first, err
	}
	name, rest, ok := bytes.Cut(b, []byte{0})
	first.mechanism = string(name)
	switch {
	case !ok:
		return first, refusal.New(refusal.ProtocolViolation, "invalid string in message")
	case !slices.Contains(offer, first.mechanism):
		return first, refusal.New(refusal.ProtocolViolation, "client selected an invalid SASL authentication mechanism")
	case len(rest) < 4:
		return first, refusal.New(refusal.ProtocolViolation, "insufficient data left in message")
	}
	n, rest := int32(binary.BigEndian.Uint32(rest)), rest[4:]
	switch {
	case n == -1 && len(rest) == 0:
		if err := send(c, nil, &pgproto3.AuthenticationSASLContinue{}); err != nil {
			return first, err
		}
		first.message, err = receive(c)
		return first, err
	case n < 0 || int(n) > len(rest):
		return first, refusal.New(refusal.ProtocolViolation, "insufficient data left in message")
	case int(n) < len(rest):
		return first, refusal.New(refusal.ProtocolViolation, "invalid message format")
	}
	first.message = rest
	return first, nil
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
