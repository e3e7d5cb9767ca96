package matrix

import (
	"slices"
	"testing"

	"github.com/pgpilot/pgpilot/bench/internal/target"
	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

// Every plan names only what exists, and no case twice: results are found by name.
func TestPlansAreSound(t *testing.T) {
	for _, name := range []string{"quick", "full", "smoke"} {
		p, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, c := range p.Cases {
			if seen[c.Name()] {
				t.Errorf("plan %s has %s twice", name, c.Name())
			}
			seen[c.Name()] = true
			if _, err := workload.Find(c.Workload); err != nil {
				t.Errorf("plan %s: %v", name, err)
			}
			if _, err := target.Find(c.Targets); err != nil {
				t.Errorf("plan %s, %s: %v", name, c.Name(), err)
			}
			if c.Clients < 1 {
				t.Errorf("plan %s, %s has no clients", name, c.Name())
			}
		}
	}
	if _, err := Find("slow"); err == nil {
		t.Error("a plan that does not exist was found")
	}
}

// A round has every case once, with all its targets once, and rounds differ in order.
func TestGroupsInterleave(t *testing.T) {
	p, err := Find("quick")
	if err != nil {
		t.Fatal(err)
	}
	groups := p.Groups()
	if len(groups) != p.Rounds*len(p.Cases) {
		t.Fatalf("%d groups for %d rounds of %d cases", len(groups), p.Rounds, len(p.Cases))
	}
	firsts := map[string]bool{}
	for i, g := range groups {
		if g.Round != i/len(p.Cases) {
			t.Fatalf("group %d is of round %d", i, g.Round)
		}
		want, got := slices.Sorted(slices.Values(g.Case.Targets)), slices.Sorted(slices.Values(g.Targets))
		if !slices.Equal(want, got) {
			t.Errorf("%s has the targets %v instead of %v", g.Case.Name(), got, want)
		}
		if g.Case.Name() == "select/simple/16" {
			firsts[g.Targets[0]] = true
		}
	}
	if len(firsts) < 2 {
		t.Error("the same target is always first")
	}
	again := p.Groups()
	for i := range groups {
		if !slices.Equal(groups[i].Targets, again[i].Targets) || groups[i].Seed != again[i].Seed {
			t.Fatal("the order is another one the second time: a run could not be resumed")
		}
	}
}
