package session

import (
	"bytes"
	"fmt"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// Messages that have no place in copied data. A server that is copying in says so and ends
// the connection; one whose copy has failed, unseen by who sent them, takes them for what they
// are ("Message Flow: COPY Operations"). Until it is known which it is none is sent.

// ofCopy reports whether messages of the type may come while data is copied in.
func ofCopy(typ byte) bool {
	switch typ {
	case wire.CopyData, wire.CopyDone, wire.CopyFail, wire.Flush, wire.Sync, wire.Terminate:
		return true
	}
	return false
}

// stray handles a message at the head that has no place in the data, and returns how many
// of its bytes are used: none if it waits.
func (s *Session) stray(typ byte, total int, rest, all []byte, at int, run *forwarding) int {
	s.owed.copying = false
	switch {
	case s.owed.front().typ == wire.Query:
		// An empty query does nothing, and is answered, where the copy has failed.
		o := s.simple(wire.Query)
		o.how, o.stray = hide, typ
		s.owed.sent(o)
		run.build(func(b []byte) []byte { return wire.AppendQuery(b, "") })
		return 0
	case s.owed.unsure > 0:
		// It is discarded, or executed if one of the Syncs was answered, or neither: nothing
		// can be asked that all of these answer.
		run.flush()
		s.report(&Problem{Code: protocolViolation, Message: fmt.Sprintf(strayMessage, typ)})
		s.violation("terminating connection because protocol synchronization was lost")
		return len(rest)
	}
	// Nothing is executed before a Sync: the server discards it, or ends the connection.
	s.owed.skipping = true
	n := s.take(total, rest)
	run.add(all, at, n)
	return n
}

const (
	protocolViolation = "08P01"
	// strayMessage is what a server that is copying in says of such a message.
	strayMessage = "unexpected message type 0x%02X during COPY from stdin"
)

// ofStray gives the error of a server that is still copying in as it would be for the
// message that waits; nil if it is another one.
func (s *Session) ofStray(msg []byte, code string) *Problem {
	typ := s.owed.last().stray
	if typ == 0 || typ == wire.Query || code != protocolViolation || !isWhole(msg) {
		return nil
	}
	asked, waits := fmt.Appendf(nil, "0x%02X", wire.Query), fmt.Appendf(nil, "0x%02X", typ)
	return &Problem{whole: bytes.Replace(msg, asked, waits, 1)}
}
