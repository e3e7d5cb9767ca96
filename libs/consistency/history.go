package consistency

import (
	"cmp"
	"slices"
)

// Kind of an operation.
type Kind uint8

// Kinds.
const (
	Read Kind = iota
	Write
)

// Outcome of an operation.
type Outcome uint8

// Outcomes.
const (
	// OK: a read was answered, a write is committed, whatever its answer was.
	OK Outcome = iota
	// Failed: it had no effect. Nobody may ever see its value.
	Failed
	// Unknown: its answer was lost; a write may be committed, now or later.
	Unknown
)

// Op is one operation of one session.
type Op struct {
	Session, Key int32
	Kind         Kind
	Outcome      Outcome
	// Value is what was written or read. Every write has another one; 0 is the value
	// before the first.
	Value int64
	// Version is the key's count of writes that belongs to Value: what a read has
	// found, or what a write has made; 0 for a write of which it is not known.
	Version int64
	// Invoke and Return enclose the operation, by one clock for all sessions, in
	// nanoseconds. The operations of a session do not overlap.
	Invoke, Return int64
	// Server has served it, numbered by the recorder, and Run numbers the times it has
	// been started. A Run of 0 is not known.
	Server, Run int32
}

// Loss is a time in which acknowledged writes may have been lost by design: a
// primary that had not sent them was lost for good. Nothing from before it binds what
// comes after it.
type Loss struct {
	From, Until int64
}

// Log records the operations of one session, in their order. It belongs to the
// goroutine of the session.
type Log struct {
	session int32
	ops     []Op
}

// NewLog begins the record of a session.
func NewLog(session int32) *Log { return &Log{session: session} }

// Add takes an operation that has ended.
func (l *Log) Add(op Op) {
	op.Session = l.session
	l.ops = append(l.ops, op)
}

// Writes gives the record without the reads: of a session whose reads promise less than
// what is judged. What it has written others still see.
func (l *Log) Writes() *Log {
	out := NewLog(l.session)
	for _, op := range l.ops {
		if op.Kind == Write {
			out.ops = append(out.ops, op)
		}
	}
	return out
}

// Len is how many operations there are.
func (l *Log) Len() int { return len(l.ops) }

// History is all operations of all sessions.
type History struct {
	ops    []Op // by Invoke
	losses []Loss
}

// NewHistory puts logs together. The logs must not grow any more.
func NewHistory(logs []*Log, losses []Loss) *History {
	h := &History{losses: slices.Clone(losses)}
	n := 0
	for _, l := range logs {
		n += len(l.ops)
	}
	h.ops = make([]Op, 0, n)
	for _, l := range logs {
		h.ops = append(h.ops, l.ops...)
	}
	// Stable: a session's own operations may share a reading of the clock.
	slices.SortStableFunc(h.ops, func(a, b Op) int { return cmp.Compare(a.Invoke, b.Invoke) })
	slices.SortFunc(h.losses, func(a, b Loss) int { return cmp.Compare(a.From, b.From) })
	return h
}

// epoch numbers the stretches between losses. ok is false for an operation that
// touches a loss.
func (h *History) epoch(op *Op) (n int, ok bool) {
	for i, l := range h.losses {
		switch {
		case op.Return < l.From:
			return i, true
		case op.Invoke <= l.Until:
			return i, false
		}
	}
	return len(h.losses), true
}
