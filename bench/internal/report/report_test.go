package report

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pgpilot/pgpilot/bench/internal/matrix"
	"github.com/pgpilot/pgpilot/bench/internal/record"
	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestSummarize(t *testing.T) {
	if _, ok := Summarize(nil); ok {
		t.Error("no values have a median")
	}
	few, _ := Summarize([]float64{3, 1, 2})
	if !near(few.Mid, 2) || few.Known() {
		t.Errorf("three values give %+v", few)
	}
	if few.Text(1) != "2.0" {
		t.Errorf("without an interval it is written %q", few.Text(1))
	}
	// Of ten values, the second and the ninth bound the median with 97.9 %.
	ten, _ := Summarize([]float64{10, 1, 9, 2, 8, 3, 7, 4, 6, 5})
	if !near(ten.Mid, 5.5) || !near(ten.Lo, 2) || !near(ten.Hi, 9) {
		t.Errorf("ten values give %+v", ten)
	}
	if ten.Text(1) != "5.5 (2.0–9.0)" {
		t.Errorf("with an interval it is written %q", ten.Text(1))
	}
}

// cell is one with so many transactions per second, of 100 µs each.
func cell(t *testing.T, target string, tps int64) record.Cell {
	t.Helper()
	h := hdrhistogram.New(1000, int64(time.Minute), 3)
	if err := h.RecordValue(int64(100 * time.Microsecond)); err != nil {
		t.Fatal(err)
	}
	latency, err := record.EncodeLatency(h)
	if err != nil {
		t.Fatal(err)
	}
	return record.Cell{
		Target: target, Elapsed: 1, Transactions: tps, Statements: tps, Latency: latency,
		ProxyCPU: 0.1, AllCPU: 0.2, ServerCPU: 0.3, GeneratorCPU: 0.1, MachineCPU: 1,
	}
}

func results(t *testing.T) (record.Header, []record.Group) {
	t.Helper()
	closed := matrix.Case{Workload: "select", Protocol: workload.Simple, Clients: 16, Targets: []string{"direct", "pgbouncer", "pgpool", "strict"}}
	fixed := matrix.Case{Workload: "mixed", Protocol: workload.Simple, Clients: 16, Rate: 400, Targets: []string{"direct", "strict"}}
	h := record.Header{
		Machine:  record.Machine{CPU: "a processor", Cores: 2, Memory: 4 << 30, Kernel: "6.1"},
		Build:    record.Build{Commit: "abc", Programs: "def"},
		Programs: map[string]string{"PostgreSQL": "15.1"},
		Plan:     matrix.Plan{Name: "quick", Rounds: 8, Cases: []matrix.Case{closed, fixed}},
	}
	var groups []record.Group
	for round := range 8 {
		// The machine gets twice as fast: the ratio stays what it is.
		speed := int64(1000 + 150*round)
		strict := cell(t, "strict", speed*8/10)
		strict.Stale, strict.Reads, strict.Fallbacks = 1, 100, 25
		groups = append(groups,
			record.Group{Round: round, Case: closed.Name(), At: time.Unix(int64(round), 0), Cells: []record.Cell{
				strict, cell(t, "direct", speed), cell(t, "pgbouncer", speed/2), {Target: "pgpool", Skipped: "pgpool-II is not installed"},
			}},
			record.Group{Round: round, Case: fixed.Name(), At: time.Unix(int64(round), 0), Cells: []record.Cell{cell(t, "direct", 400), strict}})
	}
	return h, groups
}

func TestRatiosArePaired(t *testing.T) {
	h, groups := results(t)
	r, err := Collect(h, groups)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := r.Find("select/simple/16")
	if !ok {
		t.Fatal("the case is missing")
	}
	ratio, ok := c.Ratio("strict", "direct", tps)
	if !ok || ratio.N != 8 || math.Abs(ratio.Mid-0.8) > 1e-3 || ratio.Hi-ratio.Lo > 1e-3 {
		t.Errorf("the ratio is %+v although it is 0.8 in each round", ratio)
	}
	if _, ok := c.Ratio("strict", "pgpool", tps); ok {
		t.Error("there is a ratio to a target that was not measured")
	}
	for _, target := range c.Targets {
		if target.Spec.Name == "strict" && !near(target.Latency.Mean(), float64(target.Latency.Max())) && target.Latency.TotalCount() != 8 {
			t.Errorf("the latencies of the rounds are not together: %d", target.Latency.TotalCount())
		}
	}
}

func TestLossesAndWinsAreCertain(t *testing.T) {
	h, groups := results(t)
	r, err := Collect(h, groups)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range r.Comparisons() {
		switch {
		case c.Loses():
			got[c.Baseline] = "loses"
		case c.Wins():
			got[c.Baseline] = "wins"
		}
	}
	if got["direct"] != "loses" || got["pgbouncer"] != "wins" {
		t.Errorf("the comparisons say %v", got)
	}
	// Three rounds are not enough for certainty.
	if r, err = Collect(h, groups[:6]); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Comparisons() {
		if c.Loses() || c.Wins() {
			t.Errorf("three rounds are enough for %+v", c)
		}
	}
}

func TestGoalOutcomes(t *testing.T) {
	more := goal{atLeast: true, limit: 0.9, decimals: 2}
	less := goal{limit: 60}
	unknown := Interval{Mid: 1, Lo: math.Inf(-1), Hi: math.Inf(1), N: 3}
	for _, c := range []struct {
		g    goal
		i    Interval
		want string
	}{
		{more, Interval{Mid: 1, Lo: 0.95, Hi: 1.1}, "met"},
		{more, Interval{Mid: 1, Lo: 0.8, Hi: 1.1}, "met, not certain"},
		{more, Interval{Mid: 0.5, Lo: 0.4, Hi: 0.6}, "missed"},
		{more, unknown, "met, not certain"},
		{less, Interval{Mid: 50, Lo: 40, Hi: 55}, "met"},
		{less, Interval{Mid: 70, Lo: 65, Hi: 80}, "missed"},
		{less, Interval{Mid: 70, Lo: 50, Hi: 80}, "missed, not certain"},
	} {
		if got := c.g.outcome(c.i); got != c.want {
			t.Errorf("%+v of a goal %s: %q, want %q", c.i, c.g.wanted(), got, c.want)
		}
	}
}

func TestPage(t *testing.T) {
	h, groups := results(t)
	dir := t.TempDir()
	path, err := Write(dir, h, groups)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	losses := strings.Index(page, "## Where pgpilot loses\n\n* select/simple/16, pgpilot strict: 0.80 (0.80–0.80) × direct")
	if losses < 0 {
		t.Error("the page does not say where pgpilot loses")
	}
	for _, want := range []string{
		"a processor, 2 cores, 4 GB", "Commit abc", "8 of 8 rounds", "PostgreSQL 15.1",
		"8 stale reads", "25.0 % of reads fell back", "pgpool-II is not installed", "400 transactions per second",
		"| throughput, simple protocol, × PgBouncer | ≥ 0.90 | 1.60 (1.60–1.60) | met |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
		if at := strings.Index(page, want); at > 0 && strings.HasPrefix(want, "|") && at < losses {
			t.Error("something stands before the losses")
		}
	}
	if t.Failed() {
		t.Log(page)
	}
	for _, name := range []string{"throughput-1.svg", "cpu-1.svg", "latency-1.svg"} {
		picture, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(string(picture), "<svg") || !strings.Contains(page, name) {
			t.Errorf("%s is no picture of the page", name)
		}
	}
}

// A report of a run that has only just begun must not fail.
func TestPageOfOneGroup(t *testing.T) {
	h, groups := results(t)
	if _, err := Write(t.TempDir(), h, groups[:1]); err != nil {
		t.Fatal(err)
	}
}
