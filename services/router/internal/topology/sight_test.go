package topology

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// The server and the router restart within one interval of polls: the first news that the
// router gets is of the run before, which a lagpoller of the same machine saw earlier.
func TestOlderNewsDoesNotReplaceARunSeenAtFirstHand(t *testing.T) {
	s := settings()
	s.Clock = "this machine's"
	tr := New([]string{"p", "r1"}, s)
	run := tr.Observe(1, inc(2, 2), Sight{At: t0, Boot: 1000})
	old := lag(1, inc(1, 1), 200)
	old.Clock, old.AskedBoot = s.Clock, 900
	tr.Lag(old, t0)
	if tr.Run(1) != run {
		t.Fatal("news from before the connection was made replaced the run that it is of")
	}
	later := lag(2, inc(3, 3), 90)
	later.Clock, later.AskedBoot = s.Clock, 1100
	tr.Lag(later, t0.Add(time.Second))
	if tr.Run(1) == run || tr.Table().Backends[1].Replayed.LSN != 90 {
		t.Fatal("later news of another run did not count")
	}
}

// News without a clock that compares may be old, too. What the router sees itself after
// that is the truth, or it could not use the server any more.
func TestARunThatIsSeenAgainHasNotEnded(t *testing.T) {
	tr := fresh()
	tr.Observe(1, inc(2, 2), Sight{At: t0})
	tr.Lag(lag(1, inc(1, 1), 200), t0.Add(time.Second))
	if tr.Observe(1, inc(2, 2), Sight{At: t0.Add(time.Second / 2)}) != 0 {
		t.Fatal("a connection from before the news counts as one of the present run")
	}
	run := tr.Observe(1, inc(2, 2), Sight{At: t0.Add(2 * time.Second)})
	if run == 0 || !tr.Table().Backends[1].Replayed.IsZero() {
		t.Fatalf("run %d, replayed %v; want a run with nothing proven", run, tr.Table().Backends[1].Replayed)
	}
	tr.Lag(lag(2, inc(1, 1), 300), t0.Add(3*time.Second))
	if tr.Run(1) != run || tr.Table().Backends[1].Replayed != (lsn.Position{}) {
		t.Fatal("the old news was believed again")
	}
	tr.Lag(lag(3, inc(2, 2), 90), t0.Add(4*time.Second))
	if tr.Run(1) != run || tr.Table().Backends[1].Replayed.LSN != 90 {
		t.Fatal("news of the run that was seen again did not count")
	}
}
