package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pgpilot/pgpilot/bench/internal/matrix"
	"github.com/pgpilot/pgpilot/bench/internal/record"
	"github.com/pgpilot/pgpilot/bench/internal/target"
)

// Results are all figures of a record.
type Results struct {
	Header record.Header
	Cases  []CaseResults
	// Rounds is how many of the plan's rounds are complete: have all that they are to have.
	Rounds int
	// Load and Foreign are of all groups: the load average when they began, and the share
	// of the used processor time that was none of the benchmark's.
	Load, Foreign Interval
	First, Last   time.Time
}

// CaseResults are the figures of one case.
type CaseResults struct {
	Case    matrix.Case
	Targets []TargetResults
	cells   []map[string]record.Cell // by group
}

// TargetResults are those of one target in a case. Processor times are in µs per statement.
type TargetResults struct {
	Spec target.Spec
	// Skipped is why there are no figures, if there are none.
	Skipped string
	Rounds  int
	TPS     Interval

	ProxyCPU, AllCPU, ServerCPU, GeneratorCPU Interval
	// Latency is that of all rounds together.
	Latency *hdrhistogram.Histogram
	// Sums over all rounds.
	Transactions, Errors, Stale, Unserved int64
	Reads, Fallbacks                      float64
	FirstError                            string
	ServerConnections                     int
	// IdleMemory is the resident memory, in bytes, that each client cost, in a fresh
	// target.
	IdleMemory Interval
	// Connects is how many connections were made, where each transaction has its own, and
	// Growth by how many bytes the resident memory grew meanwhile.
	Connects int64
	Growth   Interval
}

// Collect computes the figures.
func Collect(header record.Header, groups []record.Group) (*Results, error) {
	r := &Results{Header: header}
	var loads, foreign []float64
	for _, g := range groups {
		loads = append(loads, g.Load)
		for _, c := range g.Cells {
			if c.Measured() {
				foreign = append(foreign, c.Foreign())
			}
		}
		if r.First.IsZero() || g.At.Before(r.First) {
			r.First = g.At
		}
		if g.At.After(r.Last) {
			r.Last = g.At
		}
	}
	r.Load, _ = Summarize(loads)
	r.Foreign, _ = Summarize(foreign)
	r.Rounds = complete(header.Plan, groups)
	for _, c := range header.Plan.Cases {
		result := CaseResults{Case: c}
		for _, g := range groups {
			if g.Case != c.Name() {
				continue
			}
			cells := map[string]record.Cell{}
			for _, cell := range g.Cells {
				cells[cell.Target] = cell
			}
			result.cells = append(result.cells, cells)
		}
		specs, err := target.Find(c.Compared())
		if err != nil {
			return nil, fmt.Errorf("read the results of %s: %w", c.Name(), err)
		}
		for _, spec := range specs {
			t, err := result.target(spec)
			if err != nil {
				return nil, err
			}
			result.Targets = append(result.Targets, t)
		}
		if len(result.cells) > 0 {
			r.Cases = append(r.Cases, result)
		}
	}
	return r, nil
}

func (c *CaseResults) target(spec target.Spec) (TargetResults, error) {
	t := TargetResults{Spec: spec}
	var tps, proxy, all, server, generator, memory, growth []float64
	for _, cells := range c.cells {
		cell, ok := cells[spec.Name]
		if !ok {
			continue // it is no guest of this round
		}
		if !cell.Measured() {
			t.Skipped = cell.Skipped + cell.Failed
			continue
		}
		t.Rounds++
		t.Transactions += cell.Transactions
		t.Errors += cell.Errors
		t.Stale += cell.Stale
		t.Unserved += cell.Unserved
		t.Reads += cell.Reads
		t.Fallbacks += cell.Fallbacks
		t.ServerConnections = max(t.ServerConnections, cell.ServerConnections)
		if t.FirstError == "" {
			t.FirstError = cell.FirstError
		}
		h, err := cell.Histogram()
		if err != nil {
			return TargetResults{}, err
		}
		if t.Latency == nil {
			t.Latency = h
		} else {
			t.Latency.Merge(h)
		}
		if clients := c.Case.Clients + c.Case.Idle; c.Case.Idle > 0 && c.Case.Fresh {
			memory = append(memory, float64(cell.Resident-cell.ResidentBefore)/float64(clients))
		}
		if cell.Connects > 0 {
			t.Connects += cell.Connects
			growth = append(growth, float64(cell.Resident-cell.ResidentWarm))
		}
		tps = append(tps, cell.TPS())
		if cell.Statements == 0 {
			continue
		}
		proxy = append(proxy, cell.PerStatement(cell.ProxyCPU)*1e6)
		all = append(all, cell.PerStatement(cell.AllCPU)*1e6)
		server = append(server, cell.PerStatement(cell.ServerCPU)*1e6)
		generator = append(generator, cell.PerStatement(cell.GeneratorCPU)*1e6)
	}
	t.TPS, _ = Summarize(tps)
	t.ProxyCPU, _ = Summarize(proxy)
	t.AllCPU, _ = Summarize(all)
	t.ServerCPU, _ = Summarize(server)
	t.GeneratorCPU, _ = Summarize(generator)
	t.IdleMemory, _ = Summarize(memory)
	t.Growth, _ = Summarize(growth)
	return t, nil
}

// complete counts the rounds of which nothing is missing.
func complete(p matrix.Plan, groups []record.Group) int {
	missing := make([]int, p.Rounds)
	for _, g := range p.Groups() {
		missing[g.Round]++
	}
	for _, g := range groups {
		missing[g.Round]--
	}
	n := 0
	for _, m := range missing {
		if m == 0 {
			n++
		}
	}
	return n
}

// Find gives the figures of a case by its name.
func (r *Results) Find(name string) (*CaseResults, bool) {
	i := slices.IndexFunc(r.Cases, func(c CaseResults) bool { return c.Case.Name() == name })
	if i < 0 {
		return nil, false
	}
	return &r.Cases[i], true
}

// Ratio is that of a figure of two targets, paired by group. ok is false if no group has
// both.
func (c *CaseResults) Ratio(of, to string, figure func(record.Cell) float64) (Interval, bool) {
	return c.paired(of, to, func(a, b record.Cell) (float64, bool) {
		divisor := figure(b)
		return figure(a) / divisor, divisor > 0
	})
}

// paired summarises a comparison of two targets in each group that has both.
func (c *CaseResults) paired(of, to string, compare func(a, b record.Cell) (float64, bool)) (Interval, bool) {
	var values []float64
	for _, cells := range c.cells {
		a, hasA := cells[of]
		b, hasB := cells[to]
		if !hasA || !hasB || !a.Measured() || !b.Measured() {
			continue
		}
		if v, ok := compare(a, b); ok {
			values = append(values, v)
		}
	}
	return Summarize(values)
}

// Figures of a cell that are compared.
func tps(c record.Cell) float64 { return c.TPS() }

func proxyCPU(c record.Cell) float64 {
	if c.Statements == 0 {
		return 0
	}
	return c.PerStatement(c.ProxyCPU)
}
