package route

import (
	"testing"
	"time"
)

var policies = map[string]Policy{"least-in-flight": LeastInFlight, "round-robin": RoundRobin, "scored": Scored}

// picks gives how many of n decisions each backend gets, with nothing in flight.
func picks(tab *Table, r Request, n uint32) map[int]int {
	count := map[int]int{}
	for r.Turn = range n {
		count[Pick(tab, &r).Backend]++
	}
	return count
}

func TestPoliciesShareEvenly(t *testing.T) {
	for name, p := range policies {
		tab := cluster()
		tab.Costs = NewCosts(3)
		if count := picks(tab, Request{Read: true, Strict: true, Policy: p}, 100); count[1] != 50 || count[2] != 50 {
			t.Errorf("%s: %v, want 50 reads on each replica", name, count)
		}
	}
}

// A replica with three times the share gets three of any four reads.
func TestRoundRobinKeepsToShares(t *testing.T) {
	tab := cluster()
	tab.Backends[2].Share = 3
	if count := picks(tab, Request{Read: true, Strict: true, Policy: RoundRobin}, 1000); count[2] < 740 || count[2] > 760 {
		t.Errorf("%v, want about 250 and 750", count)
	}
	if count := picks(tab, Request{Read: true, Strict: true, Policy: RoundRobin}, 8); count[2] < 5 || count[2] > 7 {
		t.Errorf("%v of the first eight, want about 2 and 6", count)
	}
}

// With everything kept in flight, the statements are there as the shares say.
func TestInFlightFollowsShares(t *testing.T) {
	for _, p := range []Policy{LeastInFlight, Scored} {
		tab := cluster()
		tab.Costs = NewCosts(3)
		tab.Backends[2].Share = 3
		r := Request{Read: true, Strict: true, Policy: p}
		for r.Turn = range 400 {
			tab.Backends[Pick(tab, &r).Backend].InFlight++
		}
		if n := tab.Backends[2].InFlight; n < 290 || n > 310 {
			t.Errorf("policy %d: %d of 400 on the replica with three quarters of the shares", p, n)
		}
	}
}

func TestScored(t *testing.T) {
	const shape, other = 11, 12
	teach := func(c *Costs, id uint64, times map[int]float32) {
		for range 20 {
			for b, took := range times {
				c.Observe(id, b, took, 1000)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*Table)
		want   int
	}{
		"the shape is faster there": {func(tab *Table) { teach(tab.Costs, shape, map[int]float32{1: 0.010, 2: 0.002}) }, 2},
		"but too many run there": {func(tab *Table) {
			teach(tab.Costs, shape, map[int]float32{1: 0.010, 2: 0.002})
			tab.Backends[2].InFlight = 7
		}, 1},
		"all that is known is the pace": {func(tab *Table) { teach(tab.Costs, other, map[int]float32{1: 0.001, 2: 0.005}) }, 1},
		"the shape's time outweighs the pace": {func(tab *Table) {
			teach(tab.Costs, other, map[int]float32{1: 0.001, 2: 0.003})
			teach(tab.Costs, shape, map[int]float32{1: 0.030, 2: 0.010})
		}, 2},
		"lag within its measure does not count": {func(tab *Table) {
			teach(tab.Costs, shape, map[int]float32{1: 0.010, 2: 0.002})
			tab.Backends[2].Lag = 2 * time.Second
		}, 2},
		"lag counts": {func(tab *Table) {
			teach(tab.Costs, shape, map[int]float32{1: 0.010, 2: 0.002})
			tab.Backends[2].Lag = 10 * time.Second
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			tab := cluster()
			tab.Costs = NewCosts(3)
			c.change(tab)
			r := Request{Read: true, Strict: true, Policy: Scored, Shape: shape, Now: 1010}
			for r.Turn = range 4 {
				if got := Pick(tab, &r); got.Backend != c.want {
					t.Fatalf("turn %d: %+v, want %d", r.Turn, got, c.want)
				}
			}
		})
	}
}

// A replica that was slow is tried again after a while, and used again when that
// shows that it has recovered.
func TestSlownessFades(t *testing.T) {
	tab := cluster()
	tab.Costs = NewCosts(3)
	for range 20 {
		tab.Costs.Observe(7, 1, 0.1, 0)
		tab.Costs.Observe(7, 2, 0.001, 0)
	}
	r := Request{Read: true, Strict: true, Policy: Scored, Shape: 7, Turn: 0}
	avoided := func(now uint32) bool {
		r.Now = now
		for r.Turn = range 2 {
			if Pick(tab, &r).Backend == 1 {
				return false
			}
		}
		return true
	}
	if !avoided(1000) {
		t.Fatal("tried again after a second")
	}
	for at := range uint32(60) { // what everything takes now that all of it runs on the other
		tab.Costs.Observe(7, 2, 0.001, 240_000+at*1000)
	}
	if avoided(300_000) {
		t.Fatal("not tried again after five minutes")
	}
	tab.Backends[1].InFlight, tab.Backends[2].InFlight = 1, 8
	tries := 0
	for r.Turn = range 2 * explorers {
		if Pick(tab, &r).Backend == 1 {
			tries++
		}
	}
	if tries > 2 {
		t.Fatalf("%d of %d statements try it while one is there already", tries, 2*explorers)
	}
	tab.Backends[1].InFlight, tab.Backends[2].InFlight = 0, 0
	tab.Costs.Observe(7, 1, 0.1, 300_000)
	if !avoided(300_100) {
		t.Fatal("one statement has shown that it is as slow as ever")
	}
	tab.Costs.Observe(7, 1, 0.001, 600_000)
	tab.Costs.Observe(7, 2, 0.001, 600_000)
	if avoided(600_100) {
		t.Fatal("one statement has shown that it has recovered")
	}
}

// More shapes than there is room for cost no memory, and those in use stay.
func TestCostsAreBounded(t *testing.T) {
	c := NewCosts(3)
	var now uint32
	if n := testing.AllocsPerRun(10, func() {
		for id := range uint64(2 * shapes) {
			now++
			c.Observe(id+1000, 1, 0.001, now)
			c.Observe(7, 1, 0.5, now)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if at := c.find(7); at == nowhere || c.known[at].mean < 0.4 {
		t.Errorf("the shape in use has been forgotten (place %d)", at)
	}
	c.Forget(1)
	if got := c.estimate(c.find(7), 1, now, true); got < 0.4 {
		t.Errorf("%v; what is forgotten of a server is not what is known of the shape", got)
	}
}

func TestPickAllocatesNothing(t *testing.T) {
	for name, p := range policies {
		tab := cluster()
		tab.Costs = NewCosts(3)
		tab.Costs.Observe(7, 1, 0.001, 1)
		r := &Request{Read: true, Strict: true, Fence: pos(50), Policy: p, Shape: 7}
		if n := testing.AllocsPerRun(100, func() {
			r.Turn++
			r.Now++
			tab.Costs.Observe(r.Shape, Pick(tab, r).Backend, 0.001, r.Now)
		}); n != 0 {
			t.Errorf("%s: %v allocations per decision, want none", name, n)
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for name, p := range policies {
		b.Run(name, func(b *testing.B) {
			tab := cluster()
			tab.Costs = NewCosts(3)
			for id := range uint64(100) {
				tab.Costs.Observe(id, 1, 0.001, 1)
				tab.Costs.Observe(id, 2, 0.002, 1)
			}
			r := &Request{Read: true, Strict: true, Fence: pos(50), Policy: p}
			b.ReportAllocs()
			for b.Loop() {
				r.Turn++
				r.Now++
				r.Shape = uint64(r.Turn % 100)
				Pick(tab, r)
			}
		})
	}
}

func BenchmarkObserve(b *testing.B) {
	c := NewCosts(3)
	var now uint32
	b.ReportAllocs()
	for b.Loop() {
		now++
		c.Observe(uint64(now%100+1), 1, 0.001, now)
	}
}
