package runner

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/bench/internal/matrix"
	"github.com/pgpilot/pgpilot/bench/internal/record"
	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

func file(t *testing.T) *record.File {
	t.Helper()
	plan := matrix.Plan{Name: "test", Rounds: 2, Measure: time.Second, Cases: []matrix.Case{
		{Workload: "select", Protocol: workload.Simple, Clients: 1, Targets: []string{"direct", "strict"}},
		{Workload: "mixed", Protocol: workload.Simple, Clients: 1, Targets: []string{"direct"}},
	}}
	f, err := record.Open(filepath.Join(t.TempDir(), "results"), record.Header{Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func measured(t *testing.T, f *record.File, g matrix.Group) {
	t.Helper()
	if err := f.Append(record.Group{Round: g.Round, Case: g.Case.Name()}); err != nil {
		t.Fatal(err)
	}
}

// Only what is missing is measured, in the plan's order.
func TestMissing(t *testing.T) {
	f := file(t)
	r := &runner{Options: Options{File: f}, plan: f.Header().Plan}
	all := r.plan.Groups()
	measured(t, f, all[0])
	measured(t, f, all[2])
	left := r.missing()
	if len(left) != 2 || left[0].Case.Name() != all[1].Case.Name() || left[1].Round != 1 || left[1].Case.Name() != all[3].Case.Name() {
		t.Errorf("missing are %+v", left)
	}
}

// A run without time starts nothing, and says how much is left.
func TestPausesBeforeItStarts(t *testing.T) {
	f := file(t)
	measured(t, f, f.Header().Plan.Groups()[0])
	err := Run(t.Context(), Options{File: f, Until: time.Now().Add(time.Second), Progress: io.Discard})
	if !errors.Is(err, ErrPaused) || !strings.Contains(err.Error(), "3 of 4 groups are missing") {
		t.Errorf("%v", err)
	}
}

// A complete record needs nothing, not even servers.
func TestNothingToDo(t *testing.T) {
	f := file(t)
	for _, g := range f.Header().Plan.Groups() {
		measured(t, f, g)
	}
	if err := Run(t.Context(), Options{File: f}); err != nil {
		t.Error(err)
	}
}

func TestProgress(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, matrix.Plan{Rounds: 3}, 2)
	p.group(record.Group{Round: 1, Case: "select/simple/1", Cells: []record.Cell{
		{Target: "direct", Elapsed: 2, Transactions: 100}, {Target: "pgpool", Skipped: "not installed"}, {Target: "strict", Failed: "no"},
	}})
	for _, want := range []string{"round 2 of 3", "select/simple/1", "direct 50, strict failed tps", "1 of 2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q does not say %q", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "pgpool") {
		t.Errorf("%q tells of what was left out", out.String())
	}
}
