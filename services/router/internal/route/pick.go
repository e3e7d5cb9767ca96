package route

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
)

// Policy chooses among the replicas that may serve a read.
type Policy uint8

const (
	// LeastInFlight takes the replica with the fewest statements of this router
	// running; equals take turns.
	LeastInFlight Policy = iota
	// RoundRobin takes them in turn.
	RoundRobin
	// Scored takes the one with the lowest product of the statements that run there,
	// this one included, and the time that statements of its shape take there, plus a
	// penalty for lag.
	Scored
)

// Reason says why a statement went where it did; it is a metric label.
type Reason uint8

// Reasons.
const (
	// ReasonWrite: not proven to read.
	ReasonWrite Reason = iota
	// ReasonRead: a read on a replica.
	ReasonRead
	// ReasonFenceFallback: a read that no replica can serve yet.
	ReasonFenceFallback
	// ReasonPinned: the session is bound to its primary connection.
	ReasonPinned
	// ReasonExtended: sent with the extended query protocol.
	ReasonExtended
	// ReasonNoReplica: a read, but no healthy replica is known.
	ReasonNoReplica
	// ReasonAllToPrimary: the operator's emergency switch.
	ReasonAllToPrimary
	// ReasonTransaction: inside a transaction on the primary.
	ReasonTransaction
	// ReasonUnprepared: a read whose prepared statement the replica does not have as
	// the client knows it.
	ReasonUnprepared
	// ReasonSettings: a read of a session whose settings the replica refuses, or under
	// which it cannot read.
	ReasonSettings
	// ReasonReplication: a connection for replication, which is the primary's.
	ReasonReplication
	// ReasonRerun: a read that has failed on a replica before any of its answer was
	// shown.
	ReasonRerun
	// ReasonLogin: the parameters a new session is told.
	ReasonLogin
	// ReasonLagging: a read, but every usable replica lags more than routing.max_lag.
	ReasonLagging
	// ReasonHint: a read that a hint in the statement has sent where it went.
	ReasonHint
	// ReasonOverride: a read for which the session, its user or its database asks for
	// the primary.
	ReasonOverride
	// ReasonPrimaryLost: a read that may be older than its session asks for, because the
	// primary cannot be reached and fencing.on_primary_loss says "serve".
	ReasonPrimaryLost
	// ReasonStale: a read, but no usable replica is known to be as fresh as it must be.
	ReasonStale
	// ReasonReadOnly: a read of a read-only transaction that is on a replica.
	ReasonReadOnly
	// ReasonUnproven: a read-only transaction goes on on the primary, because of a
	// statement that is not proven to read.
	ReasonUnproven
	// Reasons counts them.
	Reasons
)

var reasonNames = [Reasons]string{"write", "read", "fence_fallback", "pinned", "extended", "no_replica", "all_to_primary", "transaction", "unprepared", "settings", "replication", "rerun", "login", "lagging", "hint", "override", "primary_lost", "stale", "read_only", "unproven"}

// String gives the metric label.
func (r Reason) String() string { return reasonNames[r] }

// Request is what a statement needs.
type Request struct {
	// Reason for the primary, where Read is false.
	Reason Reason
	// Read may run on a replica that covers Fence, if Strict; on any usable one
	// otherwise.
	Read, Strict bool
	Fence        lsn.Position
	// Mode is that of the session.
	Mode fence.Mode
	// Only, if it is not empty, are the backends that may serve the read, in the run
	// Run: what its session has seen there is not known to be anywhere else.
	Only Set
	Run  uint32
	// Bound is how old what it shows may be, AsOf the moment that follows from it. 0: it
	// does not matter.
	Bound, AsOf time.Duration
	// Tried are the backends that have failed this statement already, or refuse what
	// it needs. Again says that it has been sent to one of them.
	Tried Set
	Again bool
	// AllToPrimary overrides Read.
	AllToPrimary bool
	Policy       Policy
	// Hinted says that a hint asks for a route, ReadOnly, that the read is of a read-only
	// transaction.
	Hinted, ReadOnly bool
	// MaxLag excludes replicas that lag more. 0: none.
	MaxLag time.Duration
	// Turn is any number that grows with every request.
	Turn uint32
	// Shape and Now are for the policy Scored: what statements of one cost have in
	// common (0: unknown), and the time in milliseconds, by any clock that does not
	// step.
	Shape uint64
	Now   uint32
}

// Set is a set of backend indexes.
type Set uint64

// With gives the set and backend i.
func (s Set) With(i int) Set { return s | 1<<uint(i) }

// Has reports whether i is in the set.
func (s Set) Has(i int) bool { return s&(1<<uint(i)) != 0 }

// None is the Choice.Backend for "nowhere".
const None = -1

// Choice is the decision.
type Choice struct {
	// Backend is an index of the table, or None: the statement needs the primary and
	// none is known.
	Backend int
	Reason  Reason
}

// Pick decides.
func Pick(t *Table, r *Request) Choice {
	switch {
	case !r.Read:
		return primary(t, r.Reason)
	case r.AllToPrimary:
		return primary(t, ReasonAllToPrimary)
	}
	able, why := eligible(t, r)
	if able == 0 {
		return primary(t, why)
	}
	return Choice{choose(t, r, able), r.OnReplica()}
}

// OnReplica gives the reason of a read that runs on a replica.
func (r *Request) OnReplica() Reason {
	switch {
	case r.Hinted:
		return ReasonHint
	case r.ReadOnly:
		return ReasonReadOnly
	}
	return ReasonRead
}

// Eligible reports whether backend i may serve the read.
func Eligible(t *Table, r *Request, i int) bool {
	able, _ := eligible(t, r)
	return r.Read && !r.AllToPrimary && able.Has(i)
}

// eligible gives the replicas that may serve a read, or why there is none. A strict
// read trusts a position however old: it is a lower bound. A relaxed one has only
// the news to go by, and old news is none.
func eligible(t *Table, r *Request) (able Set, why Reason) {
	why = ReasonNoReplica
	for i := range t.Backends {
		b := &t.Backends[i]
		switch {
		case !b.usable() || r.Tried.Has(i) || !r.Strict && !b.Fresh:
		case r.MaxLag > 0 && b.Lag > r.MaxLag:
			if why == ReasonNoReplica {
				why = ReasonLagging
			}
		case r.Strict && !b.Replayed.Covers(r.Fence), r.Only != 0 && (!r.Only.Has(i) || b.Run != r.Run):
			why = ReasonFenceFallback
		case r.Bound > 0 && (b.AsOf == 0 || b.AsOf < r.AsOf):
			why = ReasonStale
		default:
			able = able.With(i)
		}
	}
	return able, why
}

func primary(t *Table, why Reason) Choice {
	return Choice{t.Primary, why}
}
