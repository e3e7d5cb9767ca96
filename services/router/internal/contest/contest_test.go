package contest

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// The order that the documentation promises, whatever the arrivals.
func TestScoredBeatsLeastInFlightBeatsRoundRobin(t *testing.T) {
	for _, w := range Workloads() {
		if w.Name != "one slow replica" && w.Name != "heavy shapes" {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			for seed := range uint64(3) {
				turns, least, scored := Run(w, route.RoundRobin, seed), Run(w, route.LeastInFlight, seed), Run(w, route.Scored, seed)
				if scored.P99 >= least.P99 || least.P99 >= turns.P99 {
					t.Errorf("seed %d: p99 of scored %v, least-in-flight %v, round-robin %v; want them in rising order", seed, scored.P99, least.P99, turns.P99)
				}
			}
		})
	}
}

// Where there is nothing to learn, learning costs little.
func TestScoredIsNoWorseWhereAllAreEqual(t *testing.T) {
	for _, w := range Workloads() {
		least, scored := Run(w, route.LeastInFlight, seed), Run(w, route.Scored, seed)
		if scored.P99 > least.P99*11/10 {
			t.Errorf("%s: p99 of scored is %v, of least-in-flight %v", w.Name, scored.P99, least.P99)
		}
	}
}

func TestTheDocumentedTableIsThisOne(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("another processor may round otherwise: the table was made on amd64")
	}
	text, err := os.ReadFile("../../../../docs/routing.md")
	if err != nil {
		t.Fatal(err)
	}
	if table := Table(); !strings.Contains(string(text), table) {
		t.Errorf("docs/routing.md is without this table; put it there:\n%s", table)
	}
}

// The same seed gives the same run.
func TestRunsAreRepeatable(t *testing.T) {
	w := Workloads()[0]
	w.arrivals = 10_000
	if a, b := Run(w, route.Scored, 3), Run(w, route.Scored, 3); a != b {
		t.Errorf("%v and %v", a, b)
	}
	if a, b := Run(w, route.Scored, 3), Run(w, route.Scored, 4); a == b {
		t.Errorf("two seeds give %v", a)
	}
}
