package report

import (
	"fmt"
	"time"

	"github.com/pgpilot/pgpilot/bench/internal/record"
	"github.com/pgpilot/pgpilot/bench/internal/target"
)

// baselines are what pgpilot is compared with, one by one.
var baselines = []string{"direct", "pgbouncer"}

// Comparison is a pgpilot against a baseline in one case.
type Comparison struct {
	Case     string
	Spec     target.Spec
	Baseline string
	Ratio    Interval
}

// Comparisons are those of throughput, in cases that ask for as much as possible.
func (r *Results) Comparisons() []Comparison {
	var out []Comparison
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.Case.Rate > 0 {
			continue
		}
		for _, t := range c.Targets {
			if t.Spec.Kind != target.Pgpilot {
				continue
			}
			for _, b := range baselines {
				if ratio, ok := c.Ratio(t.Spec.Name, b, tps); ok {
					out = append(out, Comparison{c.Case.Name(), t.Spec, b, ratio})
				}
			}
		}
	}
	return out
}

// Loses says that the whole interval is below one, Wins that it is above. Neither is
// said without an interval.
func (c Comparison) Loses() bool { return c.Ratio.Known() && c.Ratio.Hi < 1 }

// Wins is the opposite of Loses; both are false when nothing is certain.
func (c Comparison) Wins() bool { return c.Ratio.Known() && c.Ratio.Lo > 1 }

// goal is something that a pgpilot should reach.
type goal struct {
	text     string
	workload string // name of the case
	measure  func(*CaseResults) (Interval, bool)
	// atLeast says that more is better.
	atLeast  bool
	limit    float64
	decimals int
}

func goals() []goal {
	ratio := func(to string, figure func(record.Cell) float64) func(*CaseResults) (Interval, bool) {
		return func(c *CaseResults) (Interval, bool) { return c.Ratio("strict", to, figure) }
	}
	// With one replica its reads are on one server, as PgBouncer's are, and not on two that share the processors.
	one := func(c *CaseResults) (Interval, bool) { return c.Ratio("strict-one", "pgbouncer", tps) }
	return []goal{
		{"throughput, simple protocol, × PgBouncer", "select/simple/16", ratio("pgbouncer", tps), true, 0.9, 2},
		{"throughput, extended protocol, × PgBouncer", "select/extended/16", ratio("pgbouncer", tps), true, 0.9, 2},
		{"the same with one replica, simple protocol", "select/simple/16", one, true, 0.9, 2},
		{"the same with one replica, extended protocol", "select/extended/16", one, true, 0.9, 2},
		{"the same, × PgBouncer on the same two replicas, simple protocol", "select/simple/16", ratio("pgbouncer-replicas", tps), true, 0.9, 2},
		{"the same, × PgBouncer on the same two replicas, extended protocol", "select/extended/16", ratio("pgbouncer-replicas", tps), true, 0.9, 2},
		{"throughput, prepared statements, × direct", "select/prepared/16", ratio("direct", tps), true, 1.0, 2},
		{"router CPU per statement, simple protocol, × PgBouncer", "select/simple/16", ratio("pgbouncer", proxyCPU), false, 1.3, 2},
		{"router CPU per statement, extended protocol, × PgBouncer", "select/extended/16", ratio("pgbouncer", proxyCPU), false, 1.3, 2},
		{"router CPU per statement, prepared statements, × PgBouncer in session mode", "select/prepared/16", ratio("pgbouncer-session", proxyCPU), false, 1.3, 2},
		{"throughput, 20 % writes, × PgBouncer", "mixed/simple/16", ratio("pgbouncer", tps), true, 0.9, 2},
		{"the same with one replica", "mixed/simple/16", one, true, 0.9, 2},
		{"the same, × PgBouncer whose clients send reads to the same replicas", "mixed/simple/16", ratio("pgbouncer-split", tps), true, 0.9, 2},
		{"one client, median latency beyond direct, µs", "select/simple/1", medianBeyondDirect, false, 60, 0},
		{"reads that fell back to the primary, 400 statements/s, 20 % writes, %", "mixed/simple/16@400", fallbackShare, false, 5, 1},
		{"resident memory of each of 10,000 idle clients, kB", "select/simple/16+10000", idleMemory, false, 12, 1},
	}
}

func medianBeyondDirect(c *CaseResults) (Interval, bool) {
	return c.paired("strict", "direct", func(a, b record.Cell) (float64, bool) {
		ha, errA := a.Histogram()
		hb, errB := b.Histogram()
		if errA != nil || errB != nil {
			return 0, false
		}
		return float64(ha.ValueAtQuantile(50)-hb.ValueAtQuantile(50)) / float64(time.Microsecond), true
	})
}

func fallbackShare(c *CaseResults) (Interval, bool) {
	var values []float64
	for _, cells := range c.cells {
		if cell, ok := cells["strict"]; ok && cell.Measured() && cell.Reads > 0 {
			values = append(values, 100*cell.Fallbacks/cell.Reads)
		}
	}
	return Summarize(values)
}

func idleMemory(c *CaseResults) (Interval, bool) {
	for _, t := range c.Targets {
		if t.Spec.Name == "strict" && t.IdleMemory.N > 0 {
			const kilo = 1024
			i := t.IdleMemory
			return Interval{i.Mid / kilo, i.Lo / kilo, i.Hi / kilo, i.N}, true
		}
	}
	return Interval{}, false
}

// outcome says what became of a goal.
func (g goal) outcome(i Interval) string {
	met, certain := i.Mid <= g.limit, i.Hi <= g.limit || i.Lo > g.limit
	if g.atLeast {
		met, certain = i.Mid >= g.limit, i.Lo >= g.limit || i.Hi < g.limit
	}
	said := "missed"
	if met {
		said = "met"
	}
	if !certain {
		said += ", not certain"
	}
	return said
}

// wanted is the goal's limit.
func (g goal) wanted() string {
	sign := "≤"
	if g.atLeast {
		sign = "≥"
	}
	return fmt.Sprintf("%s %.*f", sign, g.decimals, g.limit)
}
