package matrix

import (
	"fmt"
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
	case "smoke":
		return smoke(), nil
	}
	return Plan{}, fmt.Errorf("there is no plan %q: choose quick, full or smoke", name)
}

// Targets of most cases.
var (
	few  = []string{"direct", "pgbouncer", "strict"}
	some = []string{"direct", "pgbouncer", "pgpool", "relaxed", "strict"}
	most = []string{"direct", "pgbouncer", "pgbouncer-session", "pgpool", "relaxed", "strict", "strict-2"}
	each = []string{"direct", "pgbouncer", "pgbouncer-session", "pgpool", "relaxed", "strict", "relaxed-2", "strict-2"}
	// prepared are those that keep prepared statements apart also where PgBouncer's
	// transaction mode does not.
	prepared = []string{"direct", "pgbouncer", "pgbouncer-session", "strict"}
	pooling  = []string{"pgbouncer", "relaxed", "strict"}
)

// quick is what fits into ten minutes on two cores.
func quick() Plan {
	return Plan{
		Name: "quick", Rounds: 10, Warmup: 250 * time.Millisecond, Measure: 800 * time.Millisecond,
		Scale: 2, Connections: serverConnections,
		Cases: []Case{
			{Workload: "select", Protocol: workload.Simple, Clients: 1, Targets: few},
			{Workload: "select", Protocol: workload.Simple, Clients: 16, Targets: most},
			{Workload: "select", Protocol: workload.Extended, Clients: 16, Targets: few},
			{Workload: "select", Protocol: workload.Prepared, Clients: 16, Targets: prepared},
			{Workload: "batch", Protocol: workload.Pipelined, Clients: 16, Targets: prepared},
			{Workload: "mixed", Protocol: workload.Simple, Clients: 16, Targets: some},
			{Workload: "mixed", Protocol: workload.Simple, Clients: 16, Rate: 400, Targets: few},
			{Workload: "tpcb", Protocol: workload.Simple, Clients: 16, Targets: few},
			{Workload: "writeread", Protocol: workload.Simple, Clients: 16, Targets: some},
			{Workload: "connect", Protocol: workload.Simple, Clients: 8, Targets: few},
		},
	}
}

// full is everything, for a machine that has the night.
func full() Plan {
	p := Plan{
		Name: "full", Rounds: 10, Warmup: 500 * time.Millisecond, Measure: 2 * time.Second,
		Scale: 5, Connections: serverConnections,
	}
	single := []workload.Protocol{workload.Simple, workload.Extended, workload.Prepared}
	for _, protocol := range single {
		for _, clients := range []int{1, 4, 16, 64, 256} {
			p.Cases = append(p.Cases, Case{Workload: "select", Protocol: protocol, Clients: clients, Targets: each})
		}
		p.Cases = append(p.Cases,
			Case{Workload: "mixed", Protocol: protocol, Clients: 16, Targets: each},
			Case{Workload: "tpcb", Protocol: protocol, Clients: 16, Targets: some},
			Case{Workload: "writeread", Protocol: protocol, Clients: 16, Targets: some},
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
		Case{Workload: "mixed", Protocol: workload.Simple, Clients: 16, Rate: 400, Targets: some},
		Case{Workload: "mixed", Protocol: workload.Extended, Clients: 16, Rate: 2000, Targets: some},
		Case{Workload: "select", Protocol: workload.Simple, Clients: 16, Rate: 4000, Targets: some},
		Case{Workload: "connect", Protocol: workload.Simple, Clients: 8, Targets: some},
		Case{Workload: "select", Protocol: workload.Simple, Clients: 16, Idle: 1000, Fresh: true, Targets: pooling},
		Case{Workload: "select", Protocol: workload.Simple, Clients: 16, Idle: 10000, Fresh: true, Targets: pooling},
	)
	return p
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
				targets := each
				if protocol != workload.Simple {
					targets = []string{"direct", "pgbouncer", "pgbouncer-session", "pgpool", "strict"}
				}
				p.Cases = append(p.Cases, Case{Workload: w.Name, Protocol: protocol, Clients: 3, Targets: targets})
			}
		default:
			for _, protocol := range []workload.Protocol{workload.Simple, workload.Pipelined} {
				p.Cases = append(p.Cases, Case{Workload: w.Name, Protocol: protocol, Clients: 2, Targets: []string{"direct", "strict"}})
			}
		}
	}
	p.Cases = append(p.Cases,
		Case{Workload: "mixed", Protocol: workload.Simple, Clients: 2, Rate: 300, Targets: few},
		Case{Workload: "select", Protocol: workload.Simple, Clients: 2, Idle: 20, Fresh: true, Targets: pooling},
	)
	return p
}
