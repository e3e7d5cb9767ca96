package verdict

import (
	"fmt"
	"strings"
)

// Kind says where a statement may run.
type Kind uint8

const (
	// Write runs on the primary and fences its session. It is the zero value:
	// whatever is not proven to read is a write.
	Write Kind = iota
	// Read is proven to change nothing and to depend on nothing but replicated
	// data and its own text; it may run on a replica.
	Read
)

// String gives "write" or "read".
func (k Kind) String() string {
	if k == Read {
		return "read"
	}
	return "write"
}

// ParseKind reads what Kind.String writes.
func ParseKind(s string) (Kind, error) {
	switch s {
	case "read":
		return Read, nil
	case "write":
		return Write, nil
	}
	return Write, fmt.Errorf("unknown statement kind %q", s)
}

// Effect is a set of things a statement does beside reading and writing tables.
type Effect uint32

const (
	// Transaction: begins, ends or configures a transaction (BEGIN, COMMIT,
	// SAVEPOINT, PREPARE TRANSACTION, SET TRANSACTION, …).
	Transaction Effect = 1 << iota
	// Session: leaves something in the server session that a later statement of
	// the same client may rely on: settings, temporary tables, PREPARE, LISTEN,
	// session advisory locks, cursors WITH HOLD, LOAD, sequence values.
	Session
	// Unproven: runs code whose effects on the server session are unknown (DO,
	// CALL, functions not known to be harmless). The connection must be reset
	// before another client gets it.
	Unproven
	// ResetsSession: DISCARD ALL, which ends what Session left behind.
	ResetsSession
	// Unparsable: the text could not be parsed; the server will say why.
	Unparsable
	// Sequences: moves a sequence, which decides what lastval and currval say in the
	// server session. DISCARD SEQUENCES undoes that.
	Sequences
	// Indelible: leaves something in the server process that DISCARD ALL does not remove
	// (LOAD, setseed, a connection of dblink, a backup or a replication slot of the session).
	// No other client may get the connection.
	Indelible
)

var effectNames = []struct {
	e    Effect
	name string
}{
	{Transaction, "transaction"},
	{Session, "session"},
	{Unproven, "unproven"},
	{ResetsSession, "resets_session"},
	{Unparsable, "unparsable"},
	{Sequences, "sequences"},
	{Indelible, "indelible"},
}

// known is every effect that this build understands.
const known = Transaction | Session | Unproven | ResetsSession | Unparsable | Sequences | Indelible

// ParseEffects reads what Effect.Names lists. A name from a newer build is an
// error: an effect that is not understood cannot be honoured.
func ParseEffects(names []string) (Effect, error) {
	var e Effect
next:
	for _, s := range names {
		for _, n := range effectNames {
			if n.name == s {
				e |= n.e
				continue next
			}
		}
		return 0, fmt.Errorf("unknown statement effect %q", s)
	}
	return e, nil
}

// Has reports whether all effects of o are in e.
func (e Effect) Has(o Effect) bool { return e&o == o }

// Names lists the effects in a fixed order, for people and for JSON.
func (e Effect) Names() []string {
	var out []string
	for _, n := range effectNames {
		if e.Has(n.e) {
			out = append(out, n.name)
		}
	}
	return out
}

// String joins the names with "+".
func (e Effect) String() string { return strings.Join(e.Names(), "+") }

// Verdict is the classifier's judgement of a statement string.
type Verdict struct {
	Kind    Kind
	Effects Effect
	// Fingerprint is pg_query's, the same for statements of one shape; zero where
	// the text could not be parsed.
	Fingerprint uint64
	// Generation of the database's verdicts this one belongs to: that of the newest
	// flush (bus.Flush) the classifier knew of when it began to judge, zero before the
	// first. A verdict of an older generation than the newest known flush must not be
	// used.
	Generation uint64
	// Passing verdicts hold for the statement that was asked about and must not be
	// remembered: a name in it is not known, and may be in a moment.
	Passing bool
	// Detail is nil for most statements: there is nothing more to tell.
	Detail *Detail
}

// OnlyReads reports whether it has been proven that the statement reads and does nothing else.
func (v *Verdict) OnlyReads() bool {
	return v.Kind == Read && v.Effects == 0 && v.Fingerprint != 0 && v.Detail == nil
}

// Unclassified is what must be taken for true of a text that nobody judged: it
// may write, and it may run code that leaves traces in the server session.
func Unclassified() Verdict { return Verdict{Kind: Write, Effects: Unproven} }
