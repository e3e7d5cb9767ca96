package session

import (
	"math"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// What a connection holds of a statement may be older than a change of what the statement
// names, of which the client knows that has just prepared it. Servers do not tell: types of
// parameters stay what they were, and a table that comes to be in front of another in
// search_path changes nothing (PostgreSQL documentation: "PREPARE", Notes). So a copy counts
// for a session only if it has been parsed at or after the session's own Parse, or PREPARE
// (docs/adr/0026).
//
// What is parsed on a replica sees what that has replayed. A copy made there counts if the
// replica was known to show everything by the moment of the client's Parse. Until that can be
// known it counts if it was made behind that, of what the session must see.

// Parsings numbers what servers are told to parse, of all sessions of a router. It is used by
// one goroutine.
type Parsings struct{ sent, arrived uint64 }

// travelled is above all numbers of what has come from another router, whose numbers say nothing
// here.
const travelled = 1 << 32

// now is the number of what was sent last.
func (p *Parsings) now() uint64 { return travelled + p.sent }

func (p *Parsings) next() uint64 {
	p.sent++
	return p.now()
}

// arrival numbers what comes with one session.
func (p *Parsings) arrival() uint64 {
	p.arrived++
	return p.arrived
}

// origin says when a connection was sent what it holds, and what its server was known to show.
type origin struct {
	// number is of Parsings; 0: nothing is known, and it counts for nobody.
	number uint64
	// current says that its server showed all there was: it is the primary.
	current bool
	// replayed is a lower bound of what a replica had replayed, and asOf the latest moment of
	// which it was known to show everything.
	replayed lsn.Position
	asOf     time.Duration
}

// birth says when a client had a statement parsed.
type birth struct {
	// own is the number of that. What is sent behind the number since is parsed after it, and
	// at is the moment when it was over.
	own, since uint64
	at         time.Duration
	// fence is what a replica must have replayed to parse it for the session, if that is known.
	fence    lsn.Position
	isFenced bool
}

// unborn is the birth of a statement that a server is still to parse.
var unborn = birth{since: math.MaxUint64, at: math.MaxInt64}

// origin is that of what the connection in use is sent now.
func (s *Session) origin() origin {
	h := &s.held[s.at]
	if s.at == PrimarySlot {
		return origin{number: s.env.Parsings().next(), current: true}
	}
	return origin{number: s.env.Parsings().next(), replayed: h.replayed, asOf: h.asOf}
}

// bears notes that the connection in use is sent a statement as its client has it parsed.
func (s *Session) bears(st *Statement) origin {
	from := s.origin()
	st.birth = unborn
	st.birth.own = from.number
	return from
}

// born notes that this has been answered.
func (s *Session) born(st *Statement) {
	st.birth.since, st.birth.at = s.env.Parsings().now(), s.env.Moment()
}

// lives has a statement stand for what it means where what is set now matters. A server, too,
// looks again at what it names when search_path has changed.
func (s *Session) lives(st *Statement) {
	now := s.environment()
	if st.in(now) {
		st.passing = now != s.parsing
		st.birth = birth{}
		s.born(st)
	}
}

// counts reports whether a copy of the statement that the connection in the slot holds is not
// older than its client knows it.
func (s *Session) counts(slot Slot, st *Statement, from *origin) bool {
	h, b := &s.held[slot], &st.birth
	own := from.number == b.own
	switch {
	case from.number == 0:
		return false
	case from.number > h.lent, own && from.current:
		return true // nothing newer is to be had, or it is what was parsed for the client
	case slot == PrimarySlot:
		return from.current && from.number > b.since
	case from.asOf >= b.at:
		return true
	case !own && from.number <= b.since, h.asOf >= b.at:
		return false
	case s.asked.Strict && !from.replayed.Covers(s.parsesBehind(b)):
		return false
	}
	return s.asked.Bound == 0 || from.asOf >= b.at-s.asked.Bound
}

// parsesBehind gives what a replica must have replayed to parse a statement for the session:
// what that has written, or seen, before. When it first reads with it, its fence has that.
func (s *Session) parsesBehind(b *birth) lsn.Position {
	at := s.fence.Position()
	if !b.isFenced || !b.fence.IsZero() && b.fence.Timeline != at.Timeline { // or another primary was promoted
		b.fence, b.isFenced = at, true
	}
	return b.fence
}

// has reports whether the connection in use has the statement under its client's name.
func (s *Session) has(st *Statement) bool {
	at, ok := s.held[s.at].statements.sql[st.client]
	return ok && at.id == st.there() && (at.id == taker || s.counts(s.at, st, &at.from))
}

// outdates notes that what the connection in use has under the names that a text executes is
// not as the server has it parsed any more.
func (s *Session) outdates(us []use) {
	t := s.held[s.at].statements
	for _, u := range us {
		if at, ok := t.sql[u.name]; ok && u.verb == toExecute {
			at.from = origin{}
			t.sql[u.name] = at
		}
	}
}

// keepsCurrent reports whether what the connection that travels with the session holds of
// a statement counts for it, all of it.
func (s *Session) keepsCurrent(st *Statement) bool {
	if st.raw && !st.sql || st.local.kind != notLocal {
		return false
	}
	for slot := range slots {
		if !s.Keeps(slot) {
			continue
		}
		t := s.held[slot].statements
		at, ok := t.sql[st.client]
		if ok && at.id == st.there() && !s.counts(slot, st, &at.from) {
			return false
		}
		h := t.peek(st)
		return h == nil || !h.stale && s.counts(slot, st, &h.from)
	}
	return false
}

// arrive numbers what has come with a session: it counts for those of its statements of which
// the record says so, and for no other session.
func (t *Statements) arrive(number uint64) {
	from := origin{number: number, current: true}
	for _, h := range t.held {
		h.from = from
	}
	t.unnamed.from = from
	for name, at := range t.sql {
		at.from = from
		t.sql[name] = at
	}
}
