package topology

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// of is a lagpoller's word.
func of(publisher string, m *bus.Lag) *bus.Lag {
	m.Publisher = publisher
	return m
}

func ill(seq uint64, i lsn.Incarnation, replay lsn.LSN) *bus.Lag {
	m := lag(seq, i, replay)
	m.Healthy, m.Error = false, "no answer"
	return m
}

// One lagpoller is cut off from a server that the other one reaches: the server is well,
// and does not come and go with every message.
func TestAServerIsWellIfALagpollerReachesIt(t *testing.T) {
	tr := fresh()
	now := t0
	tr.Lag(of("1", lag(1, inc(1, 1), 200)), now)
	for seq := range uint64(20) {
		now = now.Add(100 * time.Millisecond)
		tr.Lag(of("2", ill(seq, inc(1, 1), 100)), now)
		if b := tr.Table().Backends[1]; !b.Healthy || b.Replayed.LSN != 200 {
			t.Fatalf("after %v: %+v", now.Sub(t0), b)
		}
		if seq%10 == 0 {
			tr.Lag(of("1", lag(seq, inc(1, 1), 200)), now)
		}
	}
	// The one that could reach it is gone: what it said counts for health.stale_after.
	now = now.Add(4 * time.Second)
	tr.Lag(of("2", ill(100, inc(1, 1), 100)), now)
	if tr.Table().Backends[1].Healthy {
		t.Fatal("a lagpoller that is silent still vouches for it")
	}
	tr.Lag(of("2", lag(101, inc(1, 1), 100)), now)
	if !tr.Table().Backends[1].Healthy {
		t.Fatal("it has come back")
	}
}

// Only a lagpoller that reaches the new primary can know that a replica has left its
// history; it counts for as long as that run of the replica.
func TestAReplicaThatHasLeftTheHistoryIsNotVouchedFor(t *testing.T) {
	tr := fresh()
	gone := lag(1, inc(1, 1), 200)
	gone.Healthy, gone.Diverged, gone.Error = false, true, "has replayed past the point where timeline 2 began"
	tr.Lag(of("1", gone), t0)
	tr.Lag(of("2", lag(1, inc(1, 1), 200)), t0)
	if tr.Table().Backends[1].Healthy {
		t.Fatal("it is used although it has left the primary's history")
	}
	// It was rebuilt, and the first lagpoller cannot reach it.
	tr.Lag(of("2", lag(2, inc(9, 9), 300)), t0)
	tr.Lag(of("1", gone), t0)
	if b := tr.Table().Backends[1]; !b.Healthy || b.Replayed.LSN != 300 {
		t.Fatalf("%+v after it was rebuilt", b)
	}
}

// A lagpoller that cannot reach a server goes on naming the run it saw last, to a router
// that has never heard of that one too.
func TestARunThatALagpollerCannotHaveSeenEnd(t *testing.T) {
	for name, old := range map[string]func() *bus.Lag{
		"it cannot ask": func() *bus.Lag { return ill(1, inc(1, 1), 500) },
		"it asked before": func() *bus.Lag {
			m := lag(1, inc(1, 1), 500)
			m.Clock, m.AskedBoot = "c", 10
			return m
		},
	} {
		tr := fresh()
		current := lag(1, inc(2, 2), 100)
		current.Clock, current.AskedBoot = "c", 20
		tr.Lag(of("1", current), t0)
		run := tr.Run(1)
		tr.Lag(of("2", old()), t0)
		if tr.Run(1) != run || tr.Table().Backends[1].Replayed.LSN != 100 {
			t.Errorf("%s: run %d at %v, want %d at 100", name, tr.Run(1), tr.Table().Backends[1].Replayed, run)
		}
		tr.Lag(of("1", lag(2, inc(2, 2), 120)), t0)
		if got := tr.Table().Backends[1].Replayed.LSN; got != 120 {
			t.Errorf("%s: replayed %v afterwards, want 120", name, got)
		}
	}
	// A new run that was asked for later is one.
	tr := fresh()
	m := lag(1, inc(1, 1), 500)
	m.Clock, m.AskedBoot = "c", 10
	tr.Lag(of("1", m), t0)
	next := lag(1, inc(2, 2), 100)
	next.Clock, next.AskedBoot = "c", 20
	if tr.Lag(of("2", next), t0); tr.Table().Backends[1].Replayed.LSN != 100 {
		t.Error("the next run was not seen")
	}
}

// A replica that was promoted is no replica again because a lagpoller that cannot reach
// it says so.
func TestAPromotedServerStaysPromoted(t *testing.T) {
	tr := fresh()
	promoted := lag(1, inc(1, 1), 0)
	promoted.Role, promoted.Incarnation.Timeline = bus.Primary, 2
	tr.Lag(of("1", promoted), t0)
	tr.Lag(of("2", ill(1, inc(1, 1), 500)), t0)
	tr.Lag(of("2", lag(2, inc(1, 1), 500)), t0) // on its way since before the promotion
	if b := tr.Table().Backends[1]; b.Role != route.RolePrimary || !b.Replayed.IsZero() || tr.Incarnation(1).Timeline != 2 {
		t.Fatalf("%+v on timeline %d", b, tr.Incarnation(1).Timeline)
	}
}

// A lagpoller that is cut off from the primary knows of nothing newer: by its word the
// replica would be older than it is.
func TestLagIsTheLeastThatIsKnown(t *testing.T) {
	tr := fresh()
	say := func(publisher string, lagged float64, after time.Duration) {
		m := lag(1, inc(1, 1), 200)
		m.LagMillis = lagged
		tr.Lag(of(publisher, m), t0.Add(after))
	}
	say("1", 5, 0)
	say("2", 9000, time.Second)
	if got := tr.Table().Backends[1].Lag; got != 1005*time.Millisecond {
		t.Errorf("lag %v, want what the first said and a second", got)
	}
	say("2", 9000, 5*time.Second) // the first is silent for too long
	if got := tr.Table().Backends[1].Lag; got != 9*time.Second {
		t.Errorf("lag %v, want 9s", got)
	}
}

func TestAnObservationMakesNoGarbage(t *testing.T) {
	tr := fresh()
	m, o := of("1", lag(1, inc(1, 1), 200)), of("2", lag(1, inc(1, 1), 200))
	tr.Lag(m, t0)
	tr.Lag(o, t0)
	if n := testing.AllocsPerRun(100, func() { m.ReplayLSN++; tr.Lag(m, t0); tr.Lag(o, t0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
