package sqltoken

// Error says why a text has no tokens. PostgreSQL refuses such a text in its own scanner, except
// where noted; the caller treats the text as an unchecked write and lets the primary answer. An
// Error is a small constant, so that returning one allocates nothing.
type Error uint8

// The reasons, after the messages of PostgreSQL's scanner.
const (
	_ Error = iota
	// ErrUnterminatedComment is a /* without its */.
	ErrUnterminatedComment
	// ErrUnterminatedString is a '...' constant of any form without its closing quote.
	ErrUnterminatedString
	// ErrUnterminatedDollar is a $tag$ without the same $tag$ after it.
	ErrUnterminatedDollar
	// ErrUnterminatedIdentifier is a "..." without its closing quote.
	ErrUnterminatedIdentifier
	// ErrEmptyIdentifier is "" as an identifier.
	ErrEmptyIdentifier
	// ErrUnicodeEscape is a malformed \u or \U, or a broken surrogate pair, in E'...'.
	ErrUnicodeEscape
	// ErrNumber is a number with trailing junk, as PostgreSQL 15 and later refuse it; for a server
	// before 16 that includes 0x1F and 1_000.
	ErrNumber
	// ErrParameter is $1abc, or a number that is not a positive int32: releases differ in what they
	// make of those.
	ErrParameter
	// ErrOperatorTooLong is an operator of 64 bytes or more.
	ErrOperatorTooLong
	// ErrNUL is a zero byte, which no PostgreSQL text can hold.
	ErrNUL
	// ErrEncoding is text that is not UTF-8. PostgreSQL would take it under another client_encoding,
	// where this package may not be used on non-ASCII text.
	ErrEncoding
)

var errorTexts = [...]string{
	ErrUnterminatedComment:    "unterminated /* comment",
	ErrUnterminatedString:     "unterminated quoted string",
	ErrUnterminatedDollar:     "unterminated dollar-quoted string",
	ErrUnterminatedIdentifier: "unterminated quoted identifier",
	ErrEmptyIdentifier:        "zero-length delimited identifier",
	ErrUnicodeEscape:          "invalid Unicode escape",
	ErrNumber:                 "invalid number or trailing junk after numeric literal",
	ErrParameter:              "invalid parameter number or trailing junk after parameter",
	ErrOperatorTooLong:        "operator too long",
	ErrNUL:                    "zero byte in statement text",
	ErrEncoding:               "statement text is not UTF-8",
}

// Error implements error.
func (e Error) Error() string {
	if int(e) < len(errorTexts) && errorTexts[e] != "" {
		return errorTexts[e]
	}
	return "unknown scanner error"
}
