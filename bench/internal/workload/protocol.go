package workload

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// Protocol is how statements are sent (PostgreSQL documentation, "Message Flow").
type Protocol string

const (
	// Simple sends a Query message with the values in its text.
	Simple Protocol = "simple"
	// Extended sends Parse of the unnamed statement, Bind, Describe, Execute, Sync.
	Extended Protocol = "extended"
	// Prepared sends Bind, Describe, Execute, Sync; the statements were prepared when
	// the client connected.
	Prepared Protocol = "prepared"
	// Pipelined is Prepared with a whole transaction of several statements sent at once
	// and one Sync at its end.
	Pipelined Protocol = "pipelined"
)

// Protocols are all of them.
func Protocols() []Protocol { return []Protocol{Simple, Extended, Prepared, Pipelined} }

// Prepares says that the statements must be prepared when a client connects.
func (p Protocol) Prepares() bool { return p == Prepared || p == Pipelined }

// appendStatement appends what asks the server to execute s once, up to its Sync
// exclusively in the protocols that have one.
func (p Protocol) appendStatement(dst []byte, s *Statement, args []int64) []byte {
	switch p {
	case Simple:
		at := len(dst)
		dst = append(dst, wire.Query, 0, 0, 0, 0)
		dst = append(s.appendText(dst, args), 0)
		binary.BigEndian.PutUint32(dst[at+1:], uint32(len(dst)-at-1))
		return dst
	case Extended:
		dst = append(dst, wire.Parse)
		dst = binary.BigEndian.AppendUint32(dst, uint32(4+1+len(s.text)+1+2))
		dst = append(dst, 0)
		dst = append(dst, s.text...)
		dst = append(dst, 0, 0, 0)
		return appendRun(dst, "", args[:s.args])
	case Prepared, Pipelined:
		return appendRun(dst, s.name, args[:s.args])
	}
	panic(fmt.Sprintf("unknown protocol %q", p))
}

// appendRun appends Bind with text values, Describe and Execute of the unnamed portal,
// as libpq does.
func appendRun(dst []byte, statement string, args []int64) []byte {
	at := len(dst)
	dst = append(dst, wire.Bind, 0, 0, 0, 0, 0)
	dst = append(dst, statement...)
	dst = append(dst, 0, 0, 0, 0, byte(len(args)))
	for _, v := range args {
		size := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		dst = strconv.AppendInt(dst, v, 10)
		binary.BigEndian.PutUint32(dst[size:], uint32(len(dst)-size-4))
	}
	dst = append(dst, 0, 0)
	binary.BigEndian.PutUint32(dst[at+1:], uint32(len(dst)-at-1))
	return append(dst,
		wire.Describe, 0, 0, 0, 6, 'P', 0,
		wire.Execute, 0, 0, 0, 9, 0, 0, 0, 0, 0)
}

// appendSync appends the end of a group of messages, for the protocols that have one.
func (p Protocol) appendSync(dst []byte) []byte {
	if p == Simple {
		return dst
	}
	return append(dst, wire.Sync, 0, 0, 0, 4)
}
