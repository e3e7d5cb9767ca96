package matrix

import (
	"slices"
	"testing"

	"github.com/pgpilot/pgpilot/bench/internal/target"
	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

// Every plan names only what exists, and no case twice: results are found by name.
func TestPlansAreSound(t *testing.T) {
	for _, name := range []string{"quick", "full", "memory", "smoke"} {
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
			if _, err := target.Find(c.Compared()); err != nil {
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

// A round has every case that is due once, with all its targets once, and rounds differ
// in order.
func TestGroupsInterleave(t *testing.T) {
	p, err := Find("quick")
	if err != nil {
		t.Fatal(err)
	}
	groups := p.Groups()
	type place struct {
		round int
		name  string
	}
	seen := map[place]bool{}
	firsts := map[string]bool{}
	last := 0
	for _, g := range groups {
		at := place{g.Round, g.Case.Name()}
		if seen[at] || g.Round < last {
			t.Fatalf("%s is out of turn in round %d", g.Case.Name(), g.Round)
		}
		seen[at], last = true, g.Round
		want, got := slices.Sorted(slices.Values(g.Case.in(g.Round, p.Rounds))), slices.Sorted(slices.Values(g.Targets))
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

// What a goal is set for is measured at least ten times, and guests as often as is asked.
func TestRoundsOfCases(t *testing.T) {
	p := Plan{Rounds: 12, Cases: []Case{
		{Workload: "select", Clients: 1, Targets: []string{"direct"}, Guests: []string{"pgpool"}, GuestRounds: 6},
		{Workload: "rows", Clients: 1, Targets: []string{"direct"}, Rounds: 5},
		{Workload: "wide", Clients: 1, Targets: []string{"direct"}, Rounds: 1},
	}}
	count := map[string]int{}
	for _, g := range p.Groups() {
		for _, target := range g.Targets {
			count[g.Case.Workload+" "+target]++
		}
	}
	for name, want := range map[string]int{"select direct": 12, "select pgpool": 6, "rows direct": 5, "wide direct": 1} {
		if count[name] != want {
			t.Errorf("%s is measured in %d rounds instead of %d", name, count[name], want)
		}
	}
	quick, err := Find("quick")
	if err != nil {
		t.Fatal(err)
	}
	const headline = 10
	count = map[string]int{}
	for _, g := range quick.Groups() {
		count[g.Case.Name()]++
	}
	for _, name := range []string{"select/simple/1", "select/simple/16", "select/extended/16", "select/prepared/16", "mixed/simple/16", "mixed/simple/16@400"} {
		if count[name] < headline {
			t.Errorf("%s is measured in %d rounds", name, count[name])
		}
	}
}
