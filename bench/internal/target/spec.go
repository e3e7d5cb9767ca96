package target

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgpilot/pgpilot/bench/internal/workload"
	"github.com/pgpilot/pgpilot/libs/config"
)

// Kind is which program a target is.
type Kind string

// The kinds.
const (
	Direct    Kind = "direct"
	PgBouncer Kind = "pgbouncer"
	Pgpool    Kind = "pgpool"
	Pgpilot   Kind = "pgpilot"
)

// Spec says what a target is.
type Spec struct {
	Name, Title string
	Kind        Kind
	// Pool is the pool mode of a PgBouncer or pgpilot.
	Pool string
	// Fencing is the mode of a pgpilot, Routers how many it has.
	Fencing string
	Routers int
	// Replicas says that a target which does not route has its clients on the replicas, in
	// turns, and none on the primary: for reads alone, what the same servers as pgpilot's
	// cost without it.
	Replicas bool
	// Split says that its clients are on the replicas, too, and have a second connection, to
	// the primary, for what writes: they route by themselves, with no fence.
	Split bool
	// One says that a pgpilot knows a single replica, so that its reads are on one server, as
	// those of a PgBouncer are.
	One bool
	// Unix says that it reaches the servers over their Unix sockets.
	Unix bool
}

// Specs are the targets, in the order of reports.
func Specs() []Spec {
	return []Spec{
		{Name: "direct", Title: "direct", Kind: Direct},
		{Name: "pgbouncer", Title: "PgBouncer, transaction", Kind: PgBouncer, Pool: config.Transaction},
		{Name: "pgbouncer-session", Title: "PgBouncer, session", Kind: PgBouncer, Pool: config.Session},
		{Name: "pgpool", Title: "pgpool-II", Kind: Pgpool},
		{Name: "relaxed", Title: "pgpilot relaxed", Kind: Pgpilot, Pool: config.Transaction, Fencing: config.Relaxed, Routers: 1},
		{Name: "strict", Title: "pgpilot strict", Kind: Pgpilot, Pool: config.Transaction, Fencing: config.Strict, Routers: 1},
		{Name: "strict-one", Title: "pgpilot strict, one replica", Kind: Pgpilot, Pool: config.Transaction, Fencing: config.Strict, Routers: 1, One: true},
		{Name: "causal", Title: "pgpilot causal", Kind: Pgpilot, Pool: config.Transaction, Fencing: config.Causal, Routers: 1},
		{Name: "linear", Title: "pgpilot linear", Kind: Pgpilot, Pool: config.Transaction, Fencing: config.Linear, Routers: 1},
		{Name: "direct-replicas", Title: "direct to the replicas", Kind: Direct, Replicas: true},
		{Name: "pgbouncer-replicas", Title: "PgBouncer, transaction, on the replicas", Kind: PgBouncer, Pool: config.Transaction, Replicas: true},
		{Name: "direct-split", Title: "direct, clients send reads to the replicas", Kind: Direct, Split: true},
		{Name: "pgbouncer-split", Title: "PgBouncer, transaction, clients send reads to the replicas", Kind: PgBouncer, Pool: config.Transaction, Split: true},
		{Name: "pgbouncer-unix", Title: "PgBouncer, transaction, servers on Unix sockets", Kind: PgBouncer, Pool: config.Transaction, Unix: true},
		{Name: "strict-unix", Title: "pgpilot strict, servers on Unix sockets", Kind: Pgpilot, Pool: config.Transaction, Fencing: config.Strict, Routers: 1, Unix: true},
		{Name: "relaxed-2", Title: "pgpilot relaxed, 2 routers", Kind: Pgpilot, Pool: config.Transaction, Fencing: config.Relaxed, Routers: 2},
		{Name: "strict-2", Title: "pgpilot strict, 2 routers", Kind: Pgpilot, Pool: config.Transaction, Fencing: config.Strict, Routers: 2},
	}
}

// Find gives the specs with these names, in the order of Specs.
func Find(names []string) ([]Spec, error) {
	var out []Spec
	all := Specs()
	for _, n := range names {
		if !slices.ContainsFunc(all, func(s Spec) bool { return s.Name == n }) {
			var known []string
			for _, s := range all {
				known = append(known, s.Name)
			}
			return nil, fmt.Errorf("there is no target %q: choose from %s", n, strings.Join(known, ", "))
		}
	}
	for _, s := range all {
		if slices.Contains(names, s.Name) {
			out = append(out, s)
		}
	}
	return out, nil
}

// Demand is what a case asks of a target.
type Demand struct {
	Protocol      workload.Protocol
	Clients, Idle int
}

// oneEach reports that every client has a server connection of its own.
func (s Spec) oneEach() bool {
	return s.Kind == Direct || s.Kind == Pgpool || s.Pool == config.Session
}
