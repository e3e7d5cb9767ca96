package matrix

import (
	"fmt"
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

// serverConnections divides by the three servers and by two routers.
const serverConnections = 24

// Find gives a plan by name.
func Find(name string) (Plan, error) {
	switch name {
	case "quick":
		return quick(), nil
	case "full":
		return full(), nil
	case "memory":
		return memory(), nil
	case "smoke":
		return smoke(), nil
	}
	return Plan{}, fmt.Errorf("there is no plan %q: choose quick, full, memory or smoke", name)
}

// Targets of most cases.
var (
	few = []string{"direct", "pgbouncer", "strict"}
	// alike has a pgpilot besides whose reads are on one server, as PgBouncer's are.
	alike = []string{"direct", "pgbouncer", "strict", "strict-one"}
	// others are those that route reads otherwise than strict.
	others = []string{"pgpool", "relaxed", "causal", "linear"}
	some   = []string{"direct", "pgbouncer", "pgpool", "relaxed", "strict"}
	each   = []string{"direct", "pgbouncer", "pgbouncer-session", "pgpool", "relaxed", "strict", "strict-one", "causal", "linear", "relaxed-2", "strict-2"}
	// sockets are those that reach the servers over Unix sockets.
	sockets = []string{"pgbouncer-unix", "strict-unix"}
	// prepared are those that keep prepared statements apart also where PgBouncer's
	// transaction mode does not.
	prepared = []string{"direct", "pgbouncer", "pgbouncer-session", "strict"}
	// unrouted are those that have their clients on the replicas and do not route: what
	// the same reads cost on the same servers without pgpilot.
	unrouted = []string{"direct-replicas", "pgbouncer-replicas"}
	// split have clients that route by themselves, without a fence.
	split   = []string{"direct-split", "pgbouncer-split"}
	pooling = []string{"pgbouncer", "relaxed", "strict"}
)

// extra is how many rounds have what no goal is set for. Of nine values the interval of
// the median leaves the lowest and the highest out; of fewer it is all there is.
const extra = 9

// quick is what fits into ten minutes on two cores: what goals are set for in every
// round, the rest of the matrix in some. Many short rounds say more than few long ones
// where the speed of the machine changes from one second to the next.
func quick() Plan {
	return Plan{
		Name: "quick", Rounds: 18, Warmup: 150 * time.Millisecond, Measure: 450 * time.Millisecond,
		Scale: 2, Connections: serverConnections,
		Cases: []Case{
			{Workload: "select", Protocol: workload.Simple, Clients: 1, Targets: few},
			{Workload: "select", Protocol: workload.Simple, Clients: 16, Targets: alike,
				Guests: slices.Concat(others, sockets, unrouted, []string{"pgbouncer-session", "strict-2"}), GuestRounds: extra},
			{Workload: "select", Protocol: workload.Extended, Clients: 16, Targets: alike, Guests: unrouted, GuestRounds: extra},
			{Workload: "select", Protocol: workload.Prepared, Clients: 16, Targets: prepared, Guests: []string{"direct-replicas"}, GuestRounds: extra},
			{Workload: "mixed", Protocol: workload.Simple, Clients: 16, Targets: alike,
				Guests: slices.Concat(others, split), GuestRounds: extra},
			{Workload: "mixed", Protocol: workload.Simple, Clients: 16, Rate: 400, Targets: few},
			{Workload: "select", Protocol: workload.Simple, Clients: 256, Targets: few, Rounds: extra},
			{Workload: "batch", Protocol: workload.Pipelined, Clients: 16, Targets: prepared, Rounds: extra},
			{Workload: "tpcb", Protocol: workload.Simple, Clients: 16, Targets: few, Rounds: extra},
			{Workload: "writeread", Protocol: workload.Simple, Clients: 16, Targets: slices.Concat(few, others), Rounds: extra},
			{Workload: "wide", Protocol: workload.Simple, Clients: 16, Targets: few, Rounds: extra},
			{Workload: "rows", Protocol: workload.Simple, Clients: 16, Targets: few, Rounds: extra},
			{Workload: "connect", Protocol: workload.Simple, Clients: 8, Targets: few, Rounds: extra},
			{Workload: "select", Protocol: workload.Simple, Clients: 16, Idle: manyIdle, Fresh: true, Targets: []string{"strict"}, Rounds: 1},
		},
	}
}

// manyIdle is for how many idle clients a goal is set.
const manyIdle = 10000

// full is everything, for a machine that has the night.
func full() Plan {
	p := Plan{
		Name: "full", Rounds: 10, Warmup: 500 * time.Millisecond, Measure: 2 * time.Second,
		Scale: 5, Connections: serverConnections,
	}
	single := []workload.Protocol{workload.Simple, workload.Extended, workload.Prepared}
	for _, protocol := range single {
		for _, clients := range []int{1, 4, 16, 64, 256} {
			p.Cases = append(p.Cases, Case{Workload: "select", Protocol: protocol, Clients: clients, Targets: slices.Concat(each, sockets, unrouted)})
		}
		p.Cases = append(p.Cases,
			Case{Workload: "mixed", Protocol: protocol, Clients: 16, Targets: slices.Concat(each, split)},
			Case{Workload: "tpcb", Protocol: protocol, Clients: 16, Targets: some},
			Case{Workload: "writeread", Protocol: protocol, Clients: 16, Targets: each},
			Case{Workload: "wide", Protocol: protocol, Clients: 16, Targets: some},
			Case{Workload: "rows", Protocol: protocol, Clients: 16, Targets: some},
		)
	}
	for _, clients := range []int{1, 16, 64} {
		p.Cases = append(p.Cases, Case{Workload: "batch", Protocol: workload.Pipelined, Clients: clients, Targets: each})
	}
	p.Cases = append(p.Cases,
		Case{Workload: "mixed", Protocol: workload.Simple, Clients: 64, Targets: some},
		Case{Workload: "mixed", Protocol: workload.Simple, Clients: 256, Targets: some},
		Case{Workload: "mixed", Protocol: workload.Simple, Clients: 16, Rate: 400, Targets: each},
		Case{Workload: "mixed", Protocol: workload.Extended, Clients: 16, Rate: 2000, Targets: each},
		Case{Workload: "select", Protocol: workload.Simple, Clients: 16, Rate: 4000, Targets: some},
		Case{Workload: "connect", Protocol: workload.Simple, Clients: 8, Targets: some},
		Case{Workload: "select", Protocol: workload.Simple, Clients: 16, Idle: 1000, Fresh: true, Targets: pooling},
		Case{Workload: "select", Protocol: workload.Simple, Clients: 16, Idle: manyIdle, Fresh: true, Targets: pooling},
	)
	return p
}

// memory is what clients cost in memory: many that are idle, and many that come and go.
func memory() Plan {
	return Plan{
		Name: "memory", Rounds: 1, Warmup: 5 * time.Second, Measure: 5 * time.Second,
		Scale: 1, Connections: serverConnections,
		Cases: []Case{
			{Workload: "select", Protocol: workload.Simple, Clients: 16, Idle: 1000, Fresh: true, Targets: pooling},
			{Workload: "select", Protocol: workload.Simple, Clients: 16, Idle: manyIdle, Fresh: true, Targets: pooling},
			{Workload: "connect", Protocol: workload.Simple, Clients: 16, Measure: 2 * time.Minute, Fresh: true, Targets: []string{"strict"}},
		},
	}
}

// smoke runs every workload and target, and every protocol, once and as short as
// possible: what it measures means nothing, that it runs does.
func smoke() Plan {
	p := Plan{Name: "smoke", Rounds: 1, Warmup: 20 * time.Millisecond, Measure: 100 * time.Millisecond, Scale: 1, Connections: 6}
	for _, w := range workload.All() {
		switch {
		case w.Reconnects:
			p.Cases = append(p.Cases, Case{Workload: w.Name, Protocol: workload.Simple, Clients: 2, Targets: few})
		case w.Name == "select":
			for _, protocol := range workload.Protocols() {
				targets := slices.Concat(each, sockets, unrouted)
				if protocol != workload.Simple {
					targets = []string{"direct", "pgbouncer", "pgbouncer-session", "pgpool", "strict"}
				}
				p.Cases = append(p.Cases, Case{Workload: w.Name, Protocol: protocol, Clients: 3, Targets: targets})
			}
		default:
			for _, protocol := range []workload.Protocol{workload.Simple, workload.Pipelined} {
				p.Cases = append(p.Cases, Case{Workload: w.Name, Protocol: protocol, Clients: 2, Targets: slices.Concat([]string{"direct", "strict"}, split)})
			}
		}
	}
	p.Cases = append(p.Cases,
		Case{Workload: "mixed", Protocol: workload.Simple, Clients: 2, Rate: 300, Targets: few},
		Case{Workload: "select", Protocol: workload.Simple, Clients: 2, Idle: 20, Fresh: true, Targets: pooling},
	)
	return p
}
