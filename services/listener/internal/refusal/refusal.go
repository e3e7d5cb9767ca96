package refusal

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgproto3"
)

// SQLSTATE codes the listener uses (PostgreSQL documentation, appendix A).
const (
	ProtocolViolation    = "08P01"
	FeatureNotSupported  = "0A000"
	InvalidParameter     = "22023"
	InvalidAuthorization = "28000"
	InvalidPassword      = "28P01"
	TooManyConnections   = "53300"
	QueryCanceled        = "57014"
	AdminShutdown        = "57P01"
	CannotConnectNow     = "57P03"
)

// Refusal ends a connection with a message to the client. It is an error.
type Refusal struct {
	// Code is the SQLSTATE.
	Code string
	// Message, Detail and Hint are shown to the client; the last two may be empty.
	Message string
	Detail  string
	Hint    string
	// Old says that the client speaks a protocol before 3.0 and understands only
	// the message format of that time.
	Old bool
}

// New gives a refusal with a message.
func New(code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error implements error.
func (r *Refusal) Error() string {
	if r.Detail != "" {
		return fmt.Sprintf("%s (%s): %s", r.Message, r.Code, r.Detail)
	}
	return fmt.Sprintf("%s (%s)", r.Message, r.Code)
}

// Encode gives the bytes for the client.
func (r *Refusal) Encode() ([]byte, error) {
	if r.Old {
		return []byte("EFATAL:  " + r.Message + "\n\x00"), nil
	}
	b, err := (&pgproto3.ErrorResponse{
		Severity:            "FATAL",
		SeverityUnlocalized: "FATAL",
		Code:                r.Code,
		Message:             r.Message,
		Detail:              r.Detail,
		Hint:                r.Hint,
	}).Encode(nil)
	if err != nil {
		return nil, fmt.Errorf("encode refusal: %w", err)
	}
	return b, nil
}
