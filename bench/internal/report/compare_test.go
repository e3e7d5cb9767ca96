package report

import (
	"errors"
	"strings"
	"testing"
)

// slower gives a copy of a run in which one target has a share of its throughput.
func slower(t *testing.T, target string, num, den int64) Run {
	t.Helper()
	h, groups := results(t)
	for i := range groups {
		for j := range groups[i].Cells {
			if c := &groups[i].Cells[j]; c.Target == target {
				c.Transactions = c.Transactions * num / den
			}
		}
	}
	return Run{h, groups}
}

func TestCompare(t *testing.T) {
	var out strings.Builder
	same := slower(t, "strict", 1, 1)
	if err := Compare(&out, same, slower(t, "strict", 1, 1)); err != nil {
		t.Errorf("equal runs differ: %v\n%s", err, out.String())
	}
	for _, want := range []string{"Both runs are of commit abc", "| throughput, simple protocol, × PgBouncer | 1.60 (1.60–1.60) | 1.60 (1.60–1.60) | agree |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the comparison does not say %q:\n%s", want, out.String())
		}
	}

	out.Reset()
	if err := Compare(&out, same, slower(t, "strict", 1, 2)); !errors.Is(err, ErrDiffer) || !strings.Contains(out.String(), "**differ** (a goal)") {
		t.Errorf("half the throughput: %v\n%s", err, out.String())
	}
	// What differs is against direct, for which no goal is set; but it is more than chance explains.
	out.Reset()
	if err := Compare(&out, same, slower(t, "direct", 1, 2)); !errors.Is(err, ErrDiffer) || strings.Contains(out.String(), "a goal)") {
		t.Errorf("twice as much relative to direct: %v\n%s", err, out.String())
	}
}

func TestCompareRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Run)
		want   string
	}{
		"machine":  {func(r *Run) { r.Header.Machine.ID = "other" }, "different machines"},
		"versions": {func(r *Run) { r.Header.Programs = map[string]string{"PostgreSQL": "16.1"} }, "different versions"},
		"plan":     {func(r *Run) { r.Header.Plan.Measure = 1 }, "different plans"},
		"nothing":  {func(r *Run) { r.Groups = r.Groups[:4] }, "six rounds"},
	} {
		a, b := slower(t, "strict", 1, 1), slower(t, "strict", 1, 1)
		c.change(&b)
		var out strings.Builder
		if err := Compare(&out, a, b); err == nil || errors.Is(err, ErrDiffer) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a, b := slower(t, "strict", 1, 1), slower(t, "strict", 1, 1)
	b.Header.Build.Commit = "def"
	var out strings.Builder
	if err := Compare(&out, a, b); err != nil || !strings.Contains(out.String(), "different builds: commit abc") {
		t.Errorf("another build: %v\n%s", err, out.String())
	}
}
