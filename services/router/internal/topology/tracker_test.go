package topology

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/breaker"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

var t0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func inc(postmaster, children int64) lsn.Incarnation {
	return lsn.Incarnation{SystemID: 7, Timeline: 1, Postmaster: postmaster, Children: children}
}

func lag(seq uint64, i lsn.Incarnation, replay lsn.LSN) *bus.Lag {
	return &bus.Lag{V: 1, Backend: "r1", Role: bus.Replica, Healthy: true, Incarnation: i, ReplayLSN: replay, Seq: seq, Publisher: "1"}
}

func settings() Settings {
	return Settings{StaleAfter: 3 * time.Second, Breaker: breaker.Settings{Base: 200 * time.Millisecond, Max: 5 * time.Second, Random: func() float64 { return 0.5 }}}
}

func fresh() *Tracker { return New([]string{"p", "r1"}, settings()) }

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
	run := tr.Observe(1, seen, Sight{At: t0})
	if run == 0 || !tr.Table().Backends[1].Replayed.IsZero() {
		t.Fatalf("run %d, replayed %v; want a new run with nothing proven", run, tr.Table().Backends[1].Replayed)
	}
	if tr.Observe(1, lsn.Incarnation{Postmaster: 1, Children: 1}, Sight{At: t0}) != 0 {
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
	run := tr.Observe(1, lsn.Incarnation{Postmaster: 50, Children: 51}, Sight{At: t0})
	if run == 0 || run == 1 {
		t.Fatalf("run %d, want a new one", run)
	}
	tr.Lag(lag(2, inc(100, 101), 300), t0)
	if tr.Run(1) != run || !tr.Table().Backends[1].Replayed.IsZero() {
		t.Fatal("news of the ended run counted")
	}
}

// A replica that comes back gets little at first, and one that is merely new to
// this router all of its share.
func TestSlowStart(t *testing.T) {
	tr := fresh()
	s := settings()
	s.SlowStart = 10 * time.Second
	tr.Set(s)
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

func TestFailedBackendsAreLeftAloneUntilAProbeSucceeds(t *testing.T) {
	tr := fresh()
	down := func() bool { return tr.Table().Backends[1].Down }
	if !tr.Failed(1, t0) || !down() {
		t.Fatal("tried again at once")
	}
	tr.Lag(lag(1, inc(1, 1), 200), t0)
	if !down() {
		t.Fatal("the lagpoller's word overruled the router's own evidence")
	}
	due, next := tr.Probes(t0)
	if len(due) != 0 || !next.Equal(t0.Add(200*time.Millisecond)) {
		t.Fatalf("due %v, next %v", due, next)
	}
	if due, _ = tr.Probes(next); len(due) != 1 || due[0] != 1 || !down() {
		t.Fatalf("due %v, down %t; want a probe, and nobody else sent there", due, down())
	}
	tr.Failed(1, next)
	if due, next = tr.Probes(next); len(due) != 0 || !next.Equal(t0.Add(600*time.Millisecond)) {
		t.Fatalf("due %v, next %v; want a wait that grows", due, next.Sub(t0))
	}
	tr.Connected(1, t0)
	if down() {
		t.Fatal("a connection that works must count")
	}
	for i := range 3 {
		if opened := tr.Lost(1, t0); opened != (i == 2) {
			t.Fatalf("loss %d: opened %t", i+1, opened)
		}
	}
}

// A backend that leaves gives its index to the next one, which shares nothing with
// it.
func TestBackendsComeAndGo(t *testing.T) {
	tr := fresh()
	tr.Lag(lag(1, inc(1, 1), 200), t0)
	run := tr.Run(1)
	tr.Leave(1)
	if b := tr.Table().Backends[1]; b.Role != route.RoleUnknown || tr.Index("r1") != -1 || !tr.Leaving(1) {
		t.Fatalf("%+v is in use", b)
	}
	if tr.Lag(lag(2, inc(1, 1), 300), t0) {
		t.Fatal("news of a backend that has left counts")
	}
	i, ok := tr.Add("r1", t0) // at another address, while the old one is still there
	if !ok || i != 2 || tr.Index("r1") != 2 {
		t.Fatalf("added at %d %t", i, ok)
	}
	tr.Release(1)
	i, ok = tr.Add("r2", t0)
	if !ok || i != 1 || tr.Run(1) != run || !tr.Incarnation(1).IsZero() || !tr.Table().Backends[1].Replayed.IsZero() {
		t.Fatalf("added at %d %t, run %d of %v at %v", i, ok, tr.Run(1), tr.Incarnation(1), tr.Table().Backends[1].Replayed)
	}
	m := lag(1, inc(1, 1), 50)
	m.Backend = "r2"
	tr.Lag(m, t0)
	if tr.Run(1) == run {
		t.Fatal("a connection to the one before would be taken for one to this one")
	}
	for n := len(tr.Table().Backends); n < route.MaxBackends; n++ {
		if _, ok := tr.Add("x", t0); !ok {
			t.Fatalf("no room after %d", n)
		}
	}
	if _, ok := tr.Add("one too many", t0); ok {
		t.Fatal("more backends than a set can name")
	}
}

// What a connection of the router's own says counts like news, within the run and on the
// timeline that it belongs to.
func TestReplayedByAnOwnConnection(t *testing.T) {
	at := func(timeline lsn.Timeline, l lsn.LSN) lsn.Position { return lsn.Position{Timeline: timeline, LSN: l} }
	for name, c := range map[string]struct {
		run  func(tr *Tracker) uint32
		said lsn.Position
		news bool
		want lsn.Position
	}{
		"further":                      {said: at(1, 250), news: true, want: at(1, 250)},
		"no further":                   {said: at(1, 200), want: at(1, 200)},
		"an answer that came late":     {said: at(1, 150), want: at(1, 200)},
		"on a newer timeline":          {said: at(2, 120), news: true, want: at(2, 120)},
		"of a run that is not known":   {run: func(*Tracker) uint32 { return 0 }, said: at(1, 250), want: at(1, 200)},
		"of a run that has ended":      {run: func(tr *Tracker) uint32 { r := tr.Run(1); tr.Lag(lag(2, inc(2, 2), 120), t0); return r }, said: at(1, 250), want: at(1, 120)},
		"of what is a primary by now":  {run: func(tr *Tracker) uint32 { tr.table.Backends[1].Role = route.RolePrimary; return tr.Run(1) }, said: at(1, 250), want: at(1, 200)},
		"of a timeline that has ended": {run: func(tr *Tracker) uint32 { r := tr.Run(1); tr.Replayed(1, r, at(2, 300)); return r }, said: at(1, 350), want: at(2, 300)},
		"further than news that follow": {run: func(tr *Tracker) uint32 {
			r := tr.Run(1)
			tr.Replayed(1, r, at(1, 240))
			tr.Lag(lag(2, inc(1, 1), 210), t0)
			return r
		}, said: at(1, 230), want: at(1, 240)},
	} {
		t.Run(name, func(t *testing.T) {
			tr := fresh()
			tr.Lag(lag(1, inc(1, 1), 200), t0)
			run := tr.Run(1)
			if c.run != nil {
				run = c.run(tr)
			}
			if news := tr.Replayed(1, run, c.said); news != c.news {
				t.Errorf("it is news: %v, want %v", news, c.news)
			}
			if got := tr.Table().Backends[1].Replayed; got != c.want {
				t.Errorf("replayed %+v, want %+v", got, c.want)
			}
		})
	}
}
