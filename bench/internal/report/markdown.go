package report

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/pgpilot/pgpilot/bench/internal/target"
	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

// page writes the Markdown page. charts are file names beside it, with what they show.
func (r *Results) page(w io.Writer, charts []chart) {
	h := r.Header
	fmt.Fprintf(w, "# Benchmark, plan %q\n\n", h.Plan.Name)
	fmt.Fprintf(w, "%s, %d cores, %.0f GB, Linux %s. Commit %s (programs %s). %s.\n", h.Machine.CPU, h.Machine.Cores,
		float64(h.Machine.Memory)/(1<<30), h.Machine.Kernel, h.Build.Commit, h.Build.Programs, versions(h.Programs))
	fmt.Fprintf(w, "%d of %d rounds, %v measured after %v of warming up in each; from %s to %s (UTC).\n", r.Rounds, h.Plan.Rounds,
		h.Plan.Measure, h.Plan.Warmup, r.First.Format("2006-01-02 15:04"), r.Last.Format("2006-01-02 15:04"))
	fmt.Fprintf(w, "Load average when groups began: median %.1f. Processor time used by others than the benchmark: median %.0f %%.\n\n",
		r.Load.Mid, 100*r.Foreign.Mid)
	fmt.Fprintf(w, "At most %d connections to servers for each target that can share them. ", h.Plan.Connections)
	_, _ = io.WriteString(w, `PgBouncer and direct clients use the primary
only, pgpool-II and pgpilot read on two replicas. Servers, targets and generator share the machine, and fsync is off. Ratios
are medians of pairs that were measured one right after the other, with 95 % confidence intervals; a ratio without one has
fewer than six rounds. Latencies of cases without a rate are those of a saturated machine.
`)
	r.losses(w)
	r.goals(w)
	for _, c := range charts {
		fmt.Fprintf(w, "\n![%s](%s)\n", c.title, c.file)
	}
	for i := range r.Cases {
		r.Cases[i].section(w)
	}
}

func versions(programs map[string]string) string {
	var out []string
	for name, version := range programs {
		out = append(out, name+" "+version)
	}
	sort.Strings(out)
	return strings.Join(out, ", ")
}

// losses lists where pgpilot is slower, first of all.
func (r *Results) losses(w io.Writer) {
	all := r.Comparisons()
	sort.SliceStable(all, func(i, j int) bool { return all[i].Ratio.Mid < all[j].Ratio.Mid })
	list := func(title, none string, pick func(Comparison) bool) {
		fmt.Fprintf(w, "\n## %s\n\n", title)
		some := false
		for _, c := range all {
			if pick(c) {
				some = true
				fmt.Fprintf(w, "* %s, %s: %s × %s\n", c.Case, c.Spec.Title, c.Ratio.Text(2), c.Baseline)
			}
		}
		if !some {
			fmt.Fprintln(w, none)
		}
	}
	list("Where pgpilot loses", "Nowhere with certainty.", Comparison.Loses)
	list("Where pgpilot wins", "Nowhere with certainty.", Comparison.Wins)
	list("Where neither is certain", "Nowhere.", func(c Comparison) bool { return !c.Loses() && !c.Wins() })
}

func (r *Results) goals(w io.Writer) {
	fmt.Fprint(w, "\n## Goals of pgpilot strict\n\n| | wanted | measured | |\n|---|---|---|---|\n")
	for _, g := range goals() {
		c, ok := r.Find(g.workload)
		if !ok {
			continue
		}
		if value, ok := g.measure(c); ok {
			fmt.Fprintf(w, "| %s | %s | %s | %s |\n", g.text, g.wanted(), value.Text(g.decimals), g.outcome(value))
		}
	}
}

// section is the table of one case.
func (c *CaseResults) section(w io.Writer) {
	fmt.Fprintf(w, "\n## %s\n\n%s\n\n", c.Case.Name(), c.sentence())
	fmt.Fprint(w, "| | tps | × direct | × PgBouncer | p50 | p95 | p99 | proxy CPU | all of the target | servers | generator | notes |\n")
	fmt.Fprint(w, "|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, t := range c.Targets {
		if t.Rounds == 0 {
			fmt.Fprintf(w, "| %s | | | | | | | | | | | %s |\n", t.Spec.Title, t.Skipped)
			continue
		}
		fmt.Fprintf(w, "| %s | %.0f | %s | %s | %s | %s | %s | %.1f | %.1f | %.1f | %.1f | %s |\n", t.Spec.Title, t.TPS.Mid,
			c.ratioText(t, "direct"), c.ratioText(t, "pgbouncer"), t.quantile(50), t.quantile(95), t.quantile(99),
			t.ProxyCPU.Mid, t.AllCPU.Mid, t.ServerCPU.Mid, t.GeneratorCPU.Mid, strings.Join(t.notes(), "; "))
	}
}

// sentence says what the case is.
func (c *CaseResults) sentence() string {
	title := c.Case.Workload
	if w, err := workload.Find(c.Case.Workload); err == nil {
		title = w.Title
	}
	s := fmt.Sprintf("%s, %s protocol, %d clients", title, c.Case.Protocol, c.Case.Clients)
	if c.Case.Clients == 1 {
		s = strings.TrimSuffix(s, "s")
	}
	if c.Case.Idle > 0 {
		s += fmt.Sprintf(" and %d idle ones", c.Case.Idle)
	}
	if c.Case.Rate > 0 {
		s += fmt.Sprintf(", %g transactions per second, Poisson arrivals", c.Case.Rate)
	}
	return strings.ToUpper(s[:1]) + s[1:] + ". Processor times in µs per statement."
}

func (c *CaseResults) ratioText(t TargetResults, to string) string {
	if t.Spec.Name == to || c.Case.Rate > 0 {
		return ""
	}
	ratio, ok := c.Ratio(t.Spec.Name, to, tps)
	if !ok {
		return ""
	}
	return ratio.Text(2)
}

func (t TargetResults) quantile(q float64) string {
	d := time.Duration(t.Latency.ValueAtQuantile(q))
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
}

// manyConnects is from how many connections on it is told what they leave in memory.
const manyConnects = 10000

// notes are what must be known of the figures.
func (t TargetResults) notes() []string {
	var out []string
	if t.Reads > 0 && t.Fallbacks > 0 {
		out = append(out, fmt.Sprintf("%.1f %% of reads fell back", 100*t.Fallbacks/t.Reads))
	}
	if t.Stale > 0 {
		out = append(out, fmt.Sprintf("**%d stale reads** (%.1f %%)", t.Stale, 100*float64(t.Stale)/float64(t.Transactions)))
	}
	if t.Errors > 0 {
		out = append(out, fmt.Sprintf("**%d errors**, the first: %s", t.Errors, t.FirstError))
	}
	if t.Unserved > 0 {
		out = append(out, fmt.Sprintf("%d not answered at the end", t.Unserved))
	}
	if t.IdleMemory.N > 0 {
		out = append(out, fmt.Sprintf("%.1f kB per client", t.IdleMemory.Mid/1024))
	}
	if t.Growth.N > 0 && t.Connects/int64(t.Growth.N) >= manyConnects && t.Spec.Kind != target.Direct {
		out = append(out, fmt.Sprintf("memory %+.1f MB over %d connections", t.Growth.Mid/(1<<20), t.Connects/int64(t.Growth.N)))
	}
	if t.Skipped != "" {
		out = append(out, "some rounds are missing: "+t.Skipped)
	}
	return out
}
