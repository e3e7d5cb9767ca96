package route

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// MaxBackends is how many backends a Table may have: Tried is a bit set.
const MaxBackends = 64

// Role of a backend.
type Role uint8

// Roles. The zero value is used for nothing.
const (
	RoleUnknown Role = iota
	RolePrimary
	RoleReplica
)

// String gives the name used in metrics and in SHOW pgpilot.last_route.
func (r Role) String() string {
	switch r {
	case RolePrimary:
		return "primary"
	case RoleReplica:
		return "replica"
	}
	return "unknown"
}

// Backend is what the decision needs to know of one server.
type Backend struct {
	Name string
	Role Role
	// Healthy is the lagpoller's evidence, Down the router's own: its last attempt
	// to connect failed and the next is not due.
	Healthy, Down bool
	// Diverged says that it has replayed what the primary's history does not have, or is of
	// another cluster.
	Diverged bool
	// Fresh says that news of it came within health.stale_after.
	Fresh bool
	// Share is how much of the reads it is to get in proportion to the others: its
	// weight, less while it warms up after it was away. Above zero for every replica.
	Share float32
	// Lag is how old what it shows is, as the lagpoller measured it last; 0 if that is
	// not known.
	Lag time.Duration
	// Run numbers its current run.
	Run uint32
	// Replayed is a lower bound of what its current run has replayed.
	Replayed lsn.Position
	// AsOf is the latest moment, by the machine's clock (package staleness), of which it
	// is known that the backend shows everything acknowledged before; 0: none is known.
	AsOf time.Duration
	// InFlight is how many statements this router runs on it, those included that
	// wait for a connection. Held is how many of its connections sessions hold: with
	// pool.mode session they keep the replica that was chosen once.
	InFlight, Held int32
}

// Table is a snapshot of the backends. Pick does not change it.
type Table struct {
	Backends []Backend
	// Primary is the index of the server that accepts writes, -1 for none.
	Primary int
	// Costs is what the policy Scored knows of the shapes of statements. Nil: nothing.
	Costs *Costs
}

// usable reports whether reads may go to the backend as far as its health is
// concerned.
func (b *Backend) usable() bool { return b.Role == RoleReplica && b.Healthy && !b.Down && !b.Diverged }

// coldShare is the part of its share that a backend gets at first.
const coldShare = 0.1

// Ramp gives the part of its share that a backend gets which came back so long ago:
// its caches are cold, and everybody takes it for idle. It grows to 1 within the
// given time.
func Ramp(since, within time.Duration) float32 {
	if since >= within {
		return 1
	}
	return coldShare + (1-coldShare)*float32(max(0, since))/float32(within)
}
