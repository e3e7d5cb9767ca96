package contest

import (
	"fmt"
	"strings"
	"time"

	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// seed of the published figures.
const seed = 1

// Table gives the comparison of all policies under all standard workloads, in
// Markdown.
func Table() string {
	policies := []route.Policy{route.RoundRobin, route.LeastInFlight, route.Scored}
	var b strings.Builder
	b.WriteString("| workload | response time | round-robin | least-in-flight | scored |\n|---|---|---:|---:|---:|\n")
	for _, w := range Workloads() {
		var rs []Result
		for _, p := range policies {
			rs = append(rs, Run(w, p, seed))
		}
		name := w.Name
		for _, row := range []struct {
			name string
			of   func(Result) time.Duration
		}{
			{"median", func(r Result) time.Duration { return r.P50 }},
			{"p99", func(r Result) time.Duration { return r.P99 }},
			{"p99.9", func(r Result) time.Duration { return r.P999 }},
		} {
			fmt.Fprintf(&b, "| %s | %s |", name, row.name)
			for _, r := range rs {
				fmt.Fprintf(&b, " %.2f ms |", float64(row.of(r))/float64(time.Millisecond))
			}
			b.WriteString("\n")
			name = ""
		}
	}
	return b.String()
}
