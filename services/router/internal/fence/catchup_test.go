package fence

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

func lsnOf(n int) lsn.LSN { return lsn.LSN(n) }

const ms = time.Millisecond

// course has a replica catch up in the given times, one position after the other.
func course(c *Catchup, now time.Time, took ...time.Duration) time.Time {
	for i, d := range took {
		p := at(lsnOf(1000 + i))
		c.Want(p, now)
		now = now.Add(d)
		c.Hear(p, now)
	}
	return now
}

func TestWaitingIsWorthWhatTheReplicaHasShown(t *testing.T) {
	start := time.Unix(1000, 0)
	repeat := func(d time.Duration, n int) (out []time.Duration) {
		for range n {
			out = append(out, d)
		}
		return out
	}
	for name, c := range map[string]struct {
		took []time.Duration
		want bool
	}{
		"nothing known":       {nil, true},
		"quick":               {repeat(ms, 20), true},
		"exactly in time":     {repeat(2*ms, 3), true},
		"slow":                {repeat(10*ms, 3), false},
		"half of them quick":  {append(repeat(ms, 8), repeat(10*ms, 8)...), true},
		"most of them slow":   {append(repeat(ms, 8), repeat(10*ms, 9)...), false},
		"slow once, long ago": {append(repeat(10*ms, 16), repeat(ms, 16)...), true},
	} {
		var e Catchup
		now := course(&e, start, c.took...)
		if got := e.Within(2*ms, now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A replica that has stopped replaying is not waited for by everybody until it has
// given its first result.
func TestAMeasurementUnderWayCounts(t *testing.T) {
	var c Catchup
	now := time.Unix(1000, 0)
	c.Want(at(100), now)
	if !c.Within(2*ms, now.Add(ms)) {
		t.Error("it may still be in time")
	}
	if c.Within(2*ms, now.Add(3*ms)) {
		t.Error("it is late, and nothing else is known")
	}
	c.Want(at(300), now.Add(3*ms)) // does not begin anew
	c.Hear(at(99), now.Add(4*ms))
	c.Hear(at(100), now.Add(50*ms))
	if c.Within(2*ms, now.Add(50*ms)) || !c.Within(50*ms, now.Add(50*ms)) {
		t.Error("it took 50 ms")
	}
	c.Restart()
	if !c.Within(2*ms, now) {
		t.Error("nothing is known of another run")
	}
}

func TestAPromotionEndsAMeasurement(t *testing.T) {
	var c Catchup
	now := time.Unix(1000, 0)
	c.Want(at(100), now)
	c.Hear(lsn.Position{Timeline: 2, LSN: 500}, now.Add(time.Hour))
	if !c.Within(2*ms, now.Add(2*time.Hour)) {
		t.Error("positions of two timelines do not compare")
	}
}

func TestCatchupAllocatesNothing(t *testing.T) {
	var c Catchup
	now := time.Unix(1000, 0)
	if n := testing.AllocsPerRun(100, func() { now = course(&c, now, ms); c.Within(ms, now) }); n != 0 {
		t.Fatalf("%v allocations, want none", n)
	}
}

func TestTypicalCatchup(t *testing.T) {
	var c Catchup
	if got := c.Typical(); got != 0 {
		t.Errorf("typical is %v with nothing known", got)
	}
	now := course(&c, time.Unix(1000, 0), 9*ms, 1*ms, 5*ms)
	if got := c.Typical(); got != 5*ms {
		t.Errorf("of 9, 1 and 5 ms typical is %v", got)
	}
	for range catchups {
		now = course(&c, now, 2*ms)
	}
	if got := c.Typical(); got != 2*ms {
		t.Errorf("after many of 2 ms typical is %v", got)
	}
	if allocs := testing.AllocsPerRun(100, func() { c.Typical() }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
