package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// HeaderSize is the size of a message's type and length.
const HeaderSize = 5

// MaxMessage is PostgreSQL's own limit of a message's length word, in bytes
// (MaxAllocSize): the largest value a server or client accepts.
const MaxMessage = 0x3fffffff

// Error is a length that no message can have. The connection cannot be read any
// further: where the next message starts is unknown.
type Error struct {
	Type   byte
	Length uint32
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("invalid message length %d of message type %q", e.Length, e.Type)
}

// Header reads the header at the start of b. total is the size of the whole
// message in bytes, header included; it is 0 when b does not hold a whole header
// yet. The message itself may extend beyond b.
func Header(b []byte) (typ byte, total int, err error) {
	if len(b) < HeaderSize {
		return 0, 0, nil
	}
	n := binary.BigEndian.Uint32(b[1:])
	if n < 4 || n > MaxMessage {
		return b[0], 0, &Error{Type: b[0], Length: n}
	}
	return b[0], 1 + int(n), nil
}

// MaxSmall bounds the length word of the messages of a client that have no need to be long
// (PQ_SMALL_MESSAGE_LIMIT of PostgreSQL's postgres.c, which is not documented): a server ends
// the connection at the header of a longer one.
const MaxSmall = 10000

// Request reads the header of a client's message, as Header does.
func Request(b []byte) (typ byte, total int, err error) {
	typ, total, err = Header(b)
	if total > 1+MaxSmall {
		switch typ {
		case Close, Describe, Execute, Flush, Sync, Terminate, CopyDone, CopyFail:
			return typ, 0, &Error{Type: typ, Length: uint32(total - 1)}
		}
	}
	return typ, total, err
}

// QueryText gives the statement text of a whole Query message, without its
// terminator. ok is false if the text is not terminated exactly at the end.
func QueryText(msg []byte) (text []byte, ok bool) {
	return CString(msg[HeaderSize:])
}

// CString gives a string that must fill b up to its zero byte.
func CString(b []byte) (s []byte, ok bool) {
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		return nil, false
	}
	return b[:i], i == len(b)-1
}
