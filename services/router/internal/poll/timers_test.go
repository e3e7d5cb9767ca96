package poll

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestTimers(t *testing.T) {
	var ts Timers
	t0 := time.Unix(1000, 0)
	in := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	var got []string
	fire := func(name string) func() { return func() { got = append(got, name) } }
	if d := ts.Next(t0); d >= 0 {
		t.Fatalf("next in %v, though none is set", d)
	}
	var a, b, c, d Timer
	ts.Set(&a, in(3), fire("a"))
	ts.Set(&b, in(1), fire("b"))
	ts.Set(&c, in(2), fire("c"))
	ts.Set(&d, in(4), fire("never"))
	ts.Stop(&d)
	ts.Stop(&d) // stopping twice is harmless
	if n := ts.Next(t0); n != time.Second {
		t.Fatalf("next in %v; want 1s", n)
	}
	ts.Set(&b, in(5), fire("b, later")) // set again in place
	if n := ts.Next(t0); n != 2*time.Second {
		t.Fatalf("next in %v; want 2s", n)
	}
	ts.Run(in(1))
	ts.Run(in(3))
	if !slices.Equal(got, []string{"c", "a"}) {
		t.Fatalf("fired %v", got)
	}
	if a.Active() || !b.Active() || d.Active() {
		t.Fatal("Active is not what is set")
	}
	if n := ts.Next(in(9)); n != 0 {
		t.Fatalf("next in %v, though one is due", n)
	}
	ts.Run(in(9))
	if !slices.Equal(got, []string{"c", "a", "b, later"}) {
		t.Fatalf("fired %v", got)
	}
}

// A timer may set itself again, stop another one that is due as well, and start
// new ones while it fires.
func TestTimersChangedWhileFiring(t *testing.T) {
	var ts Timers
	t0 := time.Unix(1000, 0)
	fired := 0
	var again, victim, late Timer
	ts.Set(&victim, t0.Add(2), func() { t.Error("a stopped timer fired") })
	ts.Set(&again, t0.Add(1), func() {
		fired++
		ts.Stop(&victim)
		ts.Set(&again, t0.Add(10), func() { fired += 10 })
		ts.Set(&late, t0.Add(2), func() { fired += 100 })
	})
	ts.Run(t0.Add(3))
	if fired != 101 {
		t.Fatalf("fired %d; want the first and the one it has set", fired)
	}
	ts.Run(t0.Add(10))
	if fired != 111 {
		t.Fatalf("fired %d; want the timer that was set again", fired)
	}
}

func TestTimersInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var ts Timers
	t0 := time.Unix(1000, 0)
	timers := make([]Timer, 500)
	want := map[int]int{}
	last := -1
	for i := range timers {
		for range 1 + r.IntN(3) {
			at := r.IntN(1000)
			want[i] = at
			ts.Set(&timers[i], t0.Add(time.Duration(at)), func() {
				if at < last {
					t.Errorf("%d fired after %d", at, last)
				}
				last = at
				if want[i] != at {
					t.Errorf("timer %d fired at %d; want %d", i, at, want[i])
				}
				delete(want, i)
			})
		}
		if r.IntN(4) == 0 {
			ts.Stop(&timers[i])
			delete(want, i)
		}
	}
	for at := range 1000 {
		ts.Run(t0.Add(time.Duration(at)))
	}
	if len(want) != 0 {
		t.Errorf("%d timers did not fire", len(want))
	}
}
