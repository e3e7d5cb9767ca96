package session

import (
	"bytes"
	"fmt"
	"slices"

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

// mayCopyIn reports whether a text may be a COPY.
func mayCopyIn(text []byte) bool {
	const verb = "copy"
	for i, c := range text {
		switch c {
		case ' ', '\t', '\r', '\n', '\f', '\v', ';':
			continue
		}
		for commented := c == '-' || c == '/'; i+len(verb) <= len(text); i++ {
			if bytes.EqualFold(text[i:i+len(verb)], []byte(verb)) {
				return true
			}
			if !commented {
				break
			}
		}
		return false
	}
	return false
}

// isStray reports whether a message may have no place where it is in what the client sends.
func (s *Session) isStray(typ byte) bool {
	return !ofCopy(typ) && (s.owed.copying || s.owed.skipping && s.doubts())
}

// doubts reports whether it is not known, of a copy in the extended protocol, which of the
// Syncs in its data were answered.
func (s *Session) doubts() bool {
	return s.extended && s.owed.unsure > 0 && s.owed.front().typ != wire.Query
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
		s.probe(typ, run)
		return 0
	}
	// Nothing is executed before a Sync: the server discards it, or ends the connection.
	s.owed.skipping = true
	n := s.take(total, rest)
	run.add(all, at, n)
	return n
}

// probe asks a server whether it discards what comes next, up to a Sync, or has answered one
// that was sent into the data behind the line that it has refused. Then it answers the Close,
// the Sync and the query, otherwise the last two. If it is still copying in it ends the
// connection. There is no transaction that this Sync could commit.
func (s *Session) probe(typ byte, run *forwarding) {
	s.owed.skipping = false
	s.held[s.at].statements.dropUnnamed()
	for _, asked := range []byte{wire.Close, wire.Sync, wire.Query} {
		s.owed.sent(owed{typ: asked, how: hide, stray: typ})
	}
	run.build(func(b []byte) []byte {
		b = append(appendTarget(b, wire.Close, noStatement), wire.Sync, 0, 0, 0, 4)
		return wire.AppendQuery(b, "")
	})
}

// probed looks at an answer to what probe asks, and reports whether it is one that decides.
func (s *Session) probed(typ byte) bool {
	if front := s.owed.front(); front.stray == 0 || front.typ != wire.Close {
		return false
	}
	switch typ {
	case wire.EmptyQueryResponse: // the Close was discarded, and what waits is, too
		s.owed.next()
		s.owed.next()
		s.owed.unsure, s.readies, s.discards = 0, 0, true
		return true
	case wire.CloseComplete:
		return true
	}
	return false
}

// showReadies shows the answers to Syncs in the data that were the client's.
func (s *Session) showReadies() {
	for ; s.readies > 0; s.readies-- {
		s.showReady()
	}
}

const (
	protocolViolation = "08P01"
	// strayType is how a server that is copying in names the type of such a message.
	strayType = "0x%02X"
)

// ofStray gives the error of a server that is still copying in as it would be for the
// message that waits; nil if it is another one.
func (s *Session) ofStray(msg []byte, code string) *Problem {
	behind := s.owed.all()
	i := slices.IndexFunc(behind, func(o owed) bool { return o.stray != 0 })
	if i < 0 || behind[i].typ == behind[i].stray || code != protocolViolation || !isWhole(msg) {
		return nil
	}
	asked, waits := fmt.Appendf(nil, strayType, behind[i].typ), fmt.Appendf(nil, strayType, behind[i].stray)
	return &Problem{whole: bytes.Replace(msg, asked, waits, 1)}
}

// asksOfStray reports whether it is asked what becomes of a message that waits.
func (a *answers) asksOfStray() bool {
	return slices.ContainsFunc(a.all(), func(o owed) bool { return o.stray != 0 })
}

// ended reports whether the end of copied data has been sent in the open sequence.
func (a *answers) ended() bool {
	return a.open && slices.ContainsFunc(a.all(), func(o owed) bool { return ending(o.typ) })
}
