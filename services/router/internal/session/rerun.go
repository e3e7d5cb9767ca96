package session

import (
	"bytes"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// A read that fails on a replica may succeed on the primary: a standby cancels what
// is in the way of its replay, knows nothing of unlogged tables, and may not know
// yet what was made a moment ago (PostgreSQL documentation, "Hot Standby"). As long
// as nothing of its answer has been shown it runs once more there, and its client
// gets the primary's answer, which may be the same error.

// prospect says how a server's answer has begun.
type prospect uint8

const (
	// open: it could still be anything.
	open prospect = iota
	// sound: it goes on, or it is too long to wait for its end.
	sound
	// failing: an error ends it.
	failing
	// dying: the server ends the connection before it.
	dying
)

// flushSize is how much of an answer a server gathers before it sends any, unless
// it is done, in bytes (PQ_SEND_BUFFER_SIZE). As much is waited for before a read's
// answer is begun, so nobody waits longer than on the server itself.
const flushSize = 8192

// gathered reports whether a server keeps a message of an answer until there is
// more to send. Of what it sends at once nothing is held back.
func gathered(typ byte) bool {
	switch typ {
	case wire.RowDescription, wire.DataRow, wire.CopyOutResponse, wire.CopyData, wire.CopyDone, wire.CommandComplete, wire.EmptyQueryResponse, wire.ErrorResponse, wire.ParameterStatus,
		wire.ParseComplete, wire.BindComplete, wire.CloseComplete, wire.ParameterDescription, wire.NoData, wire.PortalSuspended:
		return true
	}
	return false
}

// outlook says how an answer has begun, with the error that ends it. A backend that
// is told to stop sends its FATAL in one piece with the rows it had ready.
func outlook(b []byte) (prospect, []byte) {
	for {
		typ, total, err := wire.Header(b)
		switch {
		case err != nil:
			return sound, nil
		case total == 0 || total > len(b):
			return open, nil
		case farewell(typ, b[:total]):
			return dying, nil
		case typ == wire.ErrorResponse:
			return failing, b[:total]
		case !gathered(typ):
			return sound, nil
		}
		b = b[total:]
	}
}

// retreats begins to leave the replica on which a read has failed, and reports
// whether it does.
func (s *Session) retreats(problem []byte) bool {
	code := errorCode(problem)
	switch {
	case s.at != ReplicaSlot || code == canceled.Code:
		return false
	case s.extended && (code == noSuchStatement || outdated(problem)):
		return false // it can be parsed again there
	case outdated(problem):
		s.outdates(usesIn(&s.verdict)) // what EXECUTE runs
	case notSerializable(problem): // how the session is set, and nothing of the statement's
		s.unfit = s.unfit.With(s.held[s.at].by.Backend)
	case code == unsupported || code == readOnly:
		s.unsuited()
	}
	s.tried = s.tried.With(s.held[s.at].by.Backend)
	s.retreating = true
	return true
}

// outdated reports whether an error says that what a prepared statement refers to
// has changed: by the function that raises it, as the message may be translated.
func outdated(problem []byte) bool {
	return errorCode(problem) == unsupported &&
		(bytes.Contains(problem, []byte("RRevalidateCachedQuery\x00")) || bytes.Contains(problem, []byte(changedResult.Message)))
}

// notSerializable reports whether a standby has refused a statement because transactions
// of the session are serializable unless they say otherwise: by the function that raises
// the error, as the message may be translated.
func notSerializable(problem []byte) bool {
	return errorCode(problem) == unsupported &&
		(bytes.Contains(problem, []byte("RGetSerializableTransactionSnapshot\x00")) || bytes.Contains(problem, []byte("cannot use serializable mode in a hot standby")))
}

// readOnly is the SQLSTATE of a statement that a standby does not execute because it
// writes.
const readOnly = "25006"

// unsuited notes that the statement which runs is one for the primary: it is a write from
// now on, and so it is when it runs again.
func (s *Session) unsuited() {
	s.doubted = true
	if !s.extended && s.executing != nil {
		s.executing.verdict.Kind = verdict.Write
		return
	}
	if !s.extended {
		if text, ok := wire.QueryText(s.again); ok {
			s.env.Unsuited(s, text)
		}
		return
	}
	var st *Statement
	for _, o := range s.owed.all() {
		if o.typ != wire.Bind || o.how == made || o.st == st {
			continue
		}
		if st != nil || o.st == nil {
			return // one of several: nobody knows which
		}
		st = o.st
	}
	if st == nil {
		return
	}
	st.verdict.Kind = verdict.Write
	for i := range s.seq.parses { // as which it is prepared again
		if p := &s.seq.parses[i]; st.client == string(s.again[p.from:p.to]) {
			p.verdict.Kind = verdict.Write
		}
	}
	s.env.Unsuited(s, st.typed())
}

// fromRetreat skips the rest of the answer, so that the connection can be used
// again.
func (s *Session) fromRetreat(b []byte) int {
	used := 0
	for {
		typ, msg, more := unseen(b[used:])
		if more {
			return used
		}
		if msg == nil {
			break
		}
		used += len(msg)
		if typ == wire.ReadyForQuery {
			s.retreat()
			return used
		}
	}
	s.retreating = false
	s.dropOwed()
	s.let(s.at, Broken)
	s.acquire(route.Request{Reason: route.ReasonRerun})
	return len(b)
}

// retreat leaves the replica: its answer is over. Which of the messages it has
// executed is not known; if that matters, the connection is of no further use.
func (s *Session) retreat() {
	s.retreating = false
	how := Clean
	for _, o := range s.owed.all() {
		named := o.st != nil && o.name != ""
		if o.typ == wire.Parse && o.how != made && named || o.typ == wire.Close && o.how == hide && o.name != "" {
			how = Broken
		}
	}
	if s.replayed < len(s.again) {
		how = Broken
	}
	s.dropOwed()
	s.let(s.at, how)
	s.acquire(route.Request{Reason: route.ReasonRerun})
}
