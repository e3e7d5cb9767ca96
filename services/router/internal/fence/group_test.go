package fence

import (
	"slices"
	"testing"
)

func TestGroupServesOnlyThoseBeforeTheStart(t *testing.T) {
	var g Group[string]
	var a, b, c, d Place
	if !g.Join("a", &a) || !g.Join("b", &b) {
		t.Fatal("nothing flies: a probe is to be started")
	}
	g.Start()
	if g.Join("c", &c) {
		t.Fatal("one probe flies at a time")
	}
	if got := g.Done(); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("served %v", got)
	}
	if g.Waiting() != 1 {
		t.Fatalf("%d wait, want c", g.Waiting())
	}
	g.Start()
	g.Join("d", &d)
	g.Fail()
	g.Start()
	if got := slices.Sorted(slices.Values(g.Done())); !slices.Equal(got, []string{"c", "d"}) {
		t.Fatalf("after a failed probe the next one served %v, want c and d", got)
	}
}

// A session that writes on while the primary is away waits once.
func TestWhoJoinsAgainTakesItsOwnPlace(t *testing.T) {
	var g Group[string]
	var a, b Place
	g.Join("b1", &b)
	for range 1000 { // while the connection is made
		g.Join("a1", &a)
	}
	g.Join("a2", &a)
	for range 100 { // probes that fail, and writes during them
		g.Start()
		g.Join("a3", &a)
		g.Join("a4", &a)
		g.Fail()
	}
	if g.Waiting() != 2 {
		t.Fatalf("%d wait, want the two", g.Waiting())
	}
	g.Start()
	g.Join("a5", &a)
	if got := slices.Sorted(slices.Values(g.Done())); !slices.Equal(got, []string{"a4", "b1"}) {
		t.Fatalf("served %v, want what each said last before the start", got)
	}
	g.Start()
	if got := g.Done(); !slices.Equal(got, []string{"a5"}) {
		t.Fatalf("then %v, want a5", got)
	}
}

func TestAGroupInStepAllocatesNothing(t *testing.T) {
	var g Group[int]
	places := make([]Place, 100)
	if n := testing.AllocsPerRun(100, func() {
		for i := range places {
			g.Join(i, &places[i])
		}
		g.Start()
		for i := range places {
			g.Join(i, &places[i])
		}
		if len(g.Done()) != len(places) {
			t.Fatal("some were not served")
		}
	}); n != 0 {
		t.Fatalf("%v allocations, want none", n)
	}
}
