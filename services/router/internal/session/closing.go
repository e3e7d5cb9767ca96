package session

import "github.com/pgpilot/pgpilot/libs/wire"

// Drivers close statements and portals that they need no longer in front of whatever they send next, and
// where that is a simple query there is no Sync between (pgjdbc with
// preferQueryMode=extendedForPrepared). Close begins no transaction ("Message Flow: Extended
// Query"), so such a query is one as any other.

// maxCloses is how much of them is looked at, in bytes, as this is done again with each piece that
// arrives: more are a sequence as any other.
const maxCloses = 64 << 10

// closesBefore answers what closes them at the head, up to a simple query, and gives its
// length: 0 if there is anything else between, or the query is not there yet.
func (s *Session) closesBefore(b []byte) int {
	size, count := 0, 0
	for {
		typ, total, err := wire.Header(b[size:])
		switch {
		case err != nil || total == 0 || size > maxCloses:
			return 0
		case simple(typ) && count > 0:
			s.closeAll(b[:size])
			return size
		case typ != wire.Close || total > len(b)-size || !s.closesHere(b[size:size+total]):
			return 0
		}
		size += total
		count++
	}
}

// closesHere reports whether a Close is of a statement that only the router has to forget, or
// of a portal where there is none: outside of a transaction.
func (s *Session) closesHere(msg []byte) bool {
	kind, name, ok := splitTarget(msg)
	switch {
	case !ok || s.owed.unsure > 0:
		return false
	case kind == 'P':
		return s.status == wire.Idle
	case kind != 'S':
		return false
	}
	if st := s.statement(name); st != nil {
		return !st.raw || st.sql
	}
	return len(name) == 0 || s.pins == 0 && !s.inTransaction()
}

// closeAll executes such messages.
func (s *Session) closeAll(b []byte) {
	s.seq.scanned = 0
	from := len(s.scratch)
	for len(b) > 0 {
		_, total, _ := wire.Header(b)
		if kind, name, _ := splitTarget(b[:total]); kind == 'S' {
			s.define(string(name), nil)
		}
		s.scratch = append(s.scratch, wire.CloseComplete, 0, 0, 0, 4)
		b = b[total:]
	}
	s.toClient(from)
}
