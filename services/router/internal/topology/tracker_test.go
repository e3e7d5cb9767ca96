package topology

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

var t0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func inc(postmaster, children int64) lsn.Incarnation {
	return lsn.Incarnation{SystemID: 7, Timeline: 1, Postmaster: postmaster, Children: children}
}

func lag(seq uint64, i lsn.Incarnation, replay lsn.LSN) *bus.Lag {
	return &bus.Lag{V: 1, Backend: "r1", Role: bus.Replica, Healthy: true, Incarnation: i, ReplayLSN: replay, Seq: seq, Publisher: "1"}
}

func fresh() *Tracker { return New([]string{"p", "r1"}, 3*time.Second) }

func TestNothingIsKnownBeforeTheFirstNews(t *testing.T) {
	tr := fresh()
	if c := route.Pick(tr.Table(), &route.Request{Read: true, Strict: true}); c.Backend != 0 || c.Reason != route.ReasonNoReplica {
		t.Fatalf("read without news went to %+v, want the configured primary", c)
	}
}

func TestPositionsGrowWithinARun(t *testing.T) {
	tr := fresh()
	tr.Lag(lag(2, inc(1, 1), 200), t0)
	if got := tr.Table().Backends[1].Replayed.LSN; got != 200 {
		t.Fatalf("replayed %v, want 200", got)
	}
	other := lag(9, inc(1, 1), 150)
	other.Publisher = "2"
	tr.Lag(other, t0)
	tr.Lag(lag(1, inc(1, 1), 160), t0) // the first lagpoller, restarted
	if got := tr.Table().Backends[1].Replayed.LSN; got != 200 {
		t.Fatalf("a slower lagpoller's news lowered the position to %v", got)
	}
}

// After an immediate stop a replica replays again from an earlier position: what
// was observed before proves nothing.
func TestARestartSetsThePositionBack(t *testing.T) {
	for name, next := range map[string]lsn.Incarnation{"restart": inc(2, 2), "crash restart": inc(1, 5)} {
		tr := fresh()
		tr.Lag(lag(1, inc(1, 1), 200), t0)
		run := tr.Run(1)
		tr.Lag(lag(2, next, 120), t0)
		if got := tr.Table().Backends[1].Replayed.LSN; got != 120 || tr.Run(1) == run {
			t.Errorf("%s: replayed %v in run %d, want 120 in another run than %d", name, got, tr.Run(1), run)
		}
		tr.Lag(lag(3, inc(1, 1), 300), t0)
		if got := tr.Table().Backends[1].Replayed.LSN; got != 120 {
			t.Errorf("%s: news of the ended run moved the position to %v", name, got)
		}
	}
}

// The router's own connection may see the new run before the lagpoller does.
func TestAnOwnConnectionRevealsANewRun(t *testing.T) {
	tr := fresh()
	tr.Lag(lag(1, inc(1, 1), 200), t0)
	seen := lsn.Incarnation{Postmaster: 1, Children: 5}
	run := tr.Observe(1, seen)
	if run == 0 || !tr.Table().Backends[1].Replayed.IsZero() {
		t.Fatalf("run %d, replayed %v; want a new run with nothing proven", run, tr.Table().Backends[1].Replayed)
	}
	if tr.Observe(1, lsn.Incarnation{Postmaster: 1, Children: 1}) != 0 {
		t.Fatal("a connection of the ended run must be told apart")
	}
	tr.Lag(lag(2, inc(1, 5), 90), t0)
	if tr.Run(1) != run || tr.Table().Backends[1].Replayed.LSN != 90 {
		t.Fatalf("the lagpoller's news of the same run made it %d at %v", tr.Run(1), tr.Table().Backends[1].Replayed)
	}
}

func TestSilenceExpires(t *testing.T) {
	tr := fresh()
	tr.Lag(lag(1, inc(1, 1), 200), t0)
	tr.Expire(t0.Add(2 * time.Second))
	if !tr.Table().Backends[1].Fresh {
		t.Fatal("two seconds are not stale")
	}
	tr.Expire(t0.Add(4 * time.Second))
	if b := tr.Table().Backends[1]; b.Fresh || b.Replayed.LSN != 200 {
		t.Fatalf("fresh %v at %v; want stale news with its lower bound kept", b.Fresh, b.Replayed)
	}
}

// A primary whose clock was set back over its restart is a new run all the same.
func TestAClockStepBackIsNoEarlierRun(t *testing.T) {
	tr := fresh()
	tr.Lag(lag(1, inc(100, 101), 200), t0)
	run := tr.Observe(1, lsn.Incarnation{Postmaster: 50, Children: 51})
	if run == 0 || run == 1 {
		t.Fatalf("run %d, want a new one", run)
	}
	tr.Lag(lag(2, inc(100, 101), 300), t0)
	if tr.Run(1) != run || !tr.Table().Backends[1].Replayed.IsZero() {
		t.Fatal("news of the ended run counted")
	}
}

func TestTopology(t *testing.T) {
	tr := fresh()
	tr.Topology(&bus.Topology{Primary: "r1"})
	if tr.Table().Primary != 1 {
		t.Fatalf("primary %d after a promotion, want 1", tr.Table().Primary)
	}
	tr.Topology(&bus.Topology{Members: []bus.Member{{Backend: "r1", Role: bus.Primary}}})
	if tr.Table().Primary != 1 {
		t.Fatal("a primary that is down is waited for")
	}
	tr.Topology(&bus.Topology{Members: []bus.Member{{Backend: "r1", Role: bus.Primary, Healthy: true}}})
	if tr.Table().Primary != route.None {
		t.Fatal("a claimant that is not named has been left behind by a promotion: nothing may be written to it")
	}
	tr.Topology(&bus.Topology{Primary: "r1"})
	tr.Topology(&bus.Topology{Members: []bus.Member{{Backend: "p", Role: bus.Primary, Healthy: true}, {Backend: "r1", Role: bus.Primary, Healthy: true}}})
	if tr.Table().Primary != route.None {
		t.Fatal("with two that claim to be the primary nothing may be written")
	}
}

// A replica that comes back gets little at first, and one that is merely new to
// this router all of its share.
func TestSlowStart(t *testing.T) {
	tr := fresh()
	tr.SetSlowStart(10 * time.Second)
	tr.SetWeight(1, 4)
	share := func() float32 { return tr.Table().Backends[1].Share }
	tr.Lag(lag(1, inc(1, 1), 200), t0)
	if share() != 4 {
		t.Fatalf("share %v at the first news, want all of 4", share())
	}
	ill := lag(2, inc(1, 1), 200)
	ill.Healthy = false
	tr.Lag(ill, t0)
	tr.Lag(lag(3, inc(1, 1), 200), t0.Add(time.Minute))
	if s := share(); s < 0.3 || s > 0.5 {
		t.Fatalf("share %v just back, want a tenth of 4", s)
	}
	tr.Expire(t0.Add(time.Minute + 5*time.Second))
	if s := share(); s < 2 || s > 2.4 {
		t.Fatalf("share %v half way, want about half of 4", s)
	}
	tr.Expire(t0.Add(time.Minute + 10*time.Second))
	if share() != 4 {
		t.Fatalf("share %v at the end, want 4", share())
	}
}

// Lag that is not known says nothing: the last known one holds.
func TestLagIsKept(t *testing.T) {
	tr := fresh()
	m := lag(1, inc(1, 1), 200)
	m.LagMillis = 1500
	tr.Lag(m, t0)
	m = lag(2, inc(1, 1), 210)
	m.LagMillis = -1
	tr.Lag(m, t0)
	if got := tr.Table().Backends[1].Lag; got != 1500*time.Millisecond {
		t.Fatalf("lag %v, want 1.5s", got)
	}
}

func TestFailedBackendsAreLeftAloneForAWhile(t *testing.T) {
	tr := fresh()
	tr.Failed(1, t0)
	tr.Expire(t0)
	if !tr.Table().Backends[1].Down {
		t.Fatal("tried again at once")
	}
	tr.Expire(t0.Add(backoffFrom))
	if tr.Table().Backends[1].Down {
		t.Fatal("never tried again")
	}
	tr.Failed(1, t0)
	tr.Expire(t0.Add(backoffFrom))
	if !tr.Table().Backends[1].Down {
		t.Fatal("the wait does not grow")
	}
	tr.Connected(1)
	if tr.Table().Backends[1].Down {
		t.Fatal("a connection that works must count")
	}
}
