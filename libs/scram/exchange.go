package scram

import (
	"bytes"
	"fmt"

	"github.com/xdg-go/scram"
)

// Exchange is one authentication in progress: First, then Final. It belongs to
// one goroutine.
type Exchange struct {
	conv    *scram.ServerConversation
	known   bool
	binding Binding
}

// Malformed reports a message that breaks the protocol, in PostgreSQL's words
// (src/backend/libpq/auth-scram.c).
type Malformed struct {
	// Code is the SQLSTATE.
	Code string
	// Message and Detail are for the client. Detail may be empty.
	Message string
	Detail  string
}

// Error implements error.
func (m *Malformed) Error() string {
	if m.Detail == "" {
		return m.Message
	}
	return m.Message + ": " + m.Detail
}

const (
	codeProtocol      = "08P01"
	codeUnsupported   = "0A000"
	codeNotAuthorized = "28000"
)

func malformed(detail string) *Malformed {
	return &Malformed{Code: codeProtocol, Message: "malformed SCRAM message", Detail: detail}
}

// First takes the client-first-message and gives the server-first-message. An
// error is a *Malformed.
func (e *Exchange) First(msg []byte) ([]byte, error) {
	if m := check(msg); m != nil {
		return nil, m
	}
	if m := e.checkHeader(msg); m != nil {
		return nil, m
	}
	out, err := e.conv.Step(string(msg))
	if err != nil {
		return nil, malformed("")
	}
	return []byte(out), nil
}

// Final takes the client-final-message and gives the server-final-message, with
// which the user is authenticated. An error is ErrDenied or a *Malformed.
func (e *Exchange) Final(msg []byte) ([]byte, error) {
	if m := check(msg); m != nil {
		return nil, m
	}
	out, err := e.conv.Step(string(msg))
	switch {
	case err == nil && e.conv.Valid() && e.known:
		return []byte(out), nil
	case err == nil || out == scram.ErrInvalidProof:
		return nil, ErrDenied
	case out == scram.ErrChannelBindingsDontMatch:
		return nil, e.binding.mismatch()
	case out == scram.ErrOtherError && bytes.HasPrefix(msg, []byte("c=")):
		return nil, &Malformed{Code: codeProtocol, Message: "invalid SCRAM response", Detail: "Nonce or proof does not match."}
	}
	return nil, malformed("")
}

func check(msg []byte) *Malformed {
	switch {
	case len(msg) == 0:
		return malformed("The message is empty.")
	case bytes.IndexByte(msg, 0) >= 0:
		return malformed("Message length does not match input length.")
	}
	return nil
}

// checkHeader looks at the GS2 header and at the extension attribute that may
// follow it, where PostgreSQL has an answer of its own for each mistake.
func (e *Exchange) checkHeader(msg []byte) *Malformed {
	flag, rest, _ := bytes.Cut(msg, []byte(","))
	if m := e.binding.check(flag); m != nil {
		return m
	}
	authzid, bare, _ := bytes.Cut(rest, []byte(","))
	switch {
	case len(authzid) > 0 && authzid[0] == 'a':
		return &Malformed{Code: codeUnsupported, Message: "client uses authorization identity, but it is not supported"}
	case len(authzid) > 0:
		return malformed(fmt.Sprintf("Unexpected attribute %q in client-first-message.", sanitized(authzid[0])))
	case len(bare) > 0 && bare[0] == 'm':
		return &Malformed{Code: codeUnsupported, Message: "client requires an unsupported SCRAM extension"}
	}
	_, nonce, _ := bytes.Cut(bare, []byte(",r="))
	nonce, _, _ = bytes.Cut(nonce, []byte(","))
	for _, c := range nonce {
		if c < '!' || c > '~' {
			return &Malformed{Code: codeProtocol, Message: "non-printable characters in SCRAM nonce"}
		}
	}
	return nil
}

// sanitized shows a byte as PostgreSQL's sanitize_char does.
func sanitized(c byte) string {
	if c >= '!' && c <= '~' {
		return fmt.Sprintf("'%c'", c)
	}
	return fmt.Sprintf("0x%02x", c)
}
