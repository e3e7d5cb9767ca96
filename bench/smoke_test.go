package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/bench/internal/matrix"
	"github.com/pgpilot/pgpilot/bench/internal/record"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// The whole matrix as small as possible: every target, workload and protocol works, answers
// what it is asked, and is in the report. What it measures means nothing.
func TestSmoke(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	var out bytes.Buffer
	args := []string{"-plan", "smoke", "-bin", stacktest.Programs(t), "-out", dir}
	if code := run(t.Context(), args, &out, &out); code != exitClean {
		t.Fatalf("exit code %d:\n%s", code, out.String())
	}
	_, groups, err := record.Load(filepath.Join(dir, resultsName))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := matrix.Find("smoke")
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != len(plan.Groups()) {
		t.Errorf("%d of %d groups were measured", len(groups), len(plan.Groups()))
	}
	measured := map[string]int{}
	for _, g := range groups {
		for _, c := range g.Cells {
			switch {
			case c.Skipped != "":
				t.Logf("%s, %s: %s", g.Case, c.Target, c.Skipped)
				continue
			case c.Failed != "":
				t.Errorf("%s, %s: %s", g.Case, c.Target, c.Failed)
				continue
			}
			measured[c.Target]++
			if c.Errors > 0 || c.Lost > 0 {
				t.Errorf("%s, %s: %d errors, %d connections lost, the first: %s", g.Case, c.Target, c.Errors, c.Lost, c.FirstError)
			}
			if c.Stale > 0 && c.Target != "relaxed" && !strings.HasPrefix(c.Target, "pgpool") && !strings.HasSuffix(c.Target, "-split") {
				t.Errorf("%s, %s: %d stale reads", g.Case, c.Target, c.Stale)
			}
		}
	}
	for _, name := range []string{"direct", "direct-split", "relaxed", "strict", "strict-2"} {
		if measured[name] == 0 {
			t.Errorf("%s was never measured", name)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range plan.Cases {
		if !strings.Contains(string(page), "## "+c.Name()+"\n") {
			t.Errorf("the report has nothing about %s", c.Name())
		}
	}

	// All is measured: a second run has nothing to do but the report.
	out.Reset()
	if code := run(t.Context(), args, &out, &out); code != exitClean {
		t.Fatalf("the second run: exit code %d:\n%s", code, out.String())
	}
	if strings.Contains(out.String(), "round") {
		t.Errorf("the second run measured something:\n%s", out.String())
	}
	// One round gives no interval, so there is nothing in which runs could agree.
	out.Reset()
	if code := run(t.Context(), []string{"-compare", dir, dir}, &out, &out); code != exitError || !strings.Contains(out.String(), "six rounds") {
		t.Errorf("comparing single rounds: exit code %d:\n%s", code, out.String())
	}
	// Another build must not be mixed in.
	other := t.TempDir()
	for _, name := range []string{"listener", "router", "classifier", "lagpoller"} {
		if err := os.WriteFile(filepath.Join(other, name), []byte("another build"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args[3] = other
	out.Reset()
	if code := run(t.Context(), args, &out, &out); code != exitError || !strings.Contains(out.String(), "another build") {
		t.Errorf("another build: exit code %d:\n%s", code, out.String())
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-h"}, exitClean, "-plan"},
		{[]string{"-plan"}, exitUsage, "needs an argument"},
		{[]string{"quick"}, exitUsage, "no arguments but flags"},
		{[]string{"-plan", "slow"}, exitError, "choose quick, full, memory or smoke"},
		{[]string{"-report", "-out", "/nonexistent"}, exitError, "read the results"},
		{[]string{"-compare", "a"}, exitUsage, "two runs"},
		{[]string{"-compare", "/nonexistent/a", "/nonexistent/b"}, exitError, "read the results"},
		{[]string{"-bin", "/nonexistent", "-out", t.TempDir()}, exitError, "make build"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), c.args, &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%v: exit code %d, says %q", c.args, code, out.String())
		}
	}
}

// Without time nothing is begun, and that is said and no failure.
func TestPauses(t *testing.T) {
	var out bytes.Buffer
	args := []string{"-plan", "smoke", "-bin", stacktest.Programs(t), "-out", t.TempDir(), "-for", "1ms"}
	if code := run(t.Context(), args, &out, &out); code != exitPaused || !strings.Contains(out.String(), "run it again") {
		t.Errorf("exit code %d, says %q", code, out.String())
	}
}
