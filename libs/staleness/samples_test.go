package staleness

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

var (
	run1 = lsn.Incarnation{SystemID: 7, Timeline: 1, Postmaster: 100, Children: 100}
	run2 = lsn.Incarnation{SystemID: 7, Timeline: 1, Postmaster: 100, Children: 200}
)

// clock gives moments of a test by their milliseconds.
func clock(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

// behind puts the two answers together.
func (s *Samples) behind(i lsn.Incarnation, p lsn.LSN, now time.Duration) (bytes int64, age time.Duration, known, ok bool) {
	bytes, ok = s.Behind(i, p)
	at, known := s.AsOf(i, p)
	return bytes, now - at, known, ok
}

func TestStalenessIsTheAgeOfTheNewestReplayedSample(t *testing.T) {
	var s Samples
	s.Add(run1, 100, clock(0))
	s.Add(run1, 200, clock(1000))
	s.Add(run1, 300, clock(2000))
	for name, c := range map[string]struct {
		replayed lsn.LSN
		bytes    int64
		age      int // ms, -1 unknown
	}{
		"all":                              {300, 0, 500},
		"more than the newest sample":      {350, 0, 500},
		"exactly a sample":                 {200, 100, 1500},
		"between samples counts as before": {299, 1, 1500},
		"before the oldest sample":         {99, 201, -1},
	} {
		bytes, age, known, ok := s.behind(run1, c.replayed, clock(2500))
		if !ok || bytes != c.bytes || known != (c.age >= 0) || known && age != time.Duration(c.age)*time.Millisecond {
			t.Errorf("%s: got %d bytes, %v, %v, %v", name, bytes, age, known, ok)
		}
	}
}

func TestAnIdleClusterIsNotStale(t *testing.T) {
	var s Samples
	for ms := 0; ms <= 3600_000; ms += 1000 {
		s.Add(run1, 100, clock(ms))
	}
	if _, age, known, _ := s.behind(run1, 100, clock(3600_010)); !known || age != 10*time.Millisecond {
		t.Fatalf("a replica of an idle cluster is %v old", age)
	}
	if len(s.list) != 1 {
		t.Fatalf("an idle cluster fills the memory: %d samples", len(s.list))
	}
}

func TestSamplesDieWithThePrimarysRun(t *testing.T) {
	var s Samples
	s.Add(run1, 300, clock(0))
	s.Add(run2, 250, clock(1000)) // the crash lost what was not flushed
	if bytes, age, known, ok := s.behind(run1, 260, clock(1500)); !ok || !known || bytes != 0 || age != 500*time.Millisecond {
		t.Fatalf("got %d bytes, %v", bytes, age)
	}
	if _, _, known, _ := s.behind(run1, 200, clock(1500)); known {
		t.Fatal("a sample of the earlier run was used")
	}
}

func TestNothingIsSaidAcrossTimelinesAndSystems(t *testing.T) {
	var s Samples
	if _, _, _, ok := s.behind(run1, 1, clock(0)); ok {
		t.Fatal("lag behind a primary that was never seen")
	}
	s.Add(run1, 300, clock(0))
	other, forked := run1, run1
	other.SystemID, forked.Timeline = 8, 2
	for _, i := range []lsn.Incarnation{other, forked} {
		if _, _, _, ok := s.behind(i, 300, clock(0)); ok {
			t.Errorf("lag was told for %+v", i)
		}
	}
}

// However the list is thinned, a replica never looks fresher than it is, and it
// is known for any position since the first sample.
func TestThinningOnlyMakesReplicasLookStaler(t *testing.T) {
	var s Samples
	var truth []sample
	r := rand.New(rand.NewPCG(1, 2))
	at, l := 0, lsn.LSN(0)
	for range 5 * maxSamples {
		at += 1 + r.IntN(1000)
		l += lsn.LSN(1 + r.IntN(1000))
		s.Add(run1, l, clock(at))
		truth = append(truth, sample{l, clock(at)})
	}
	if len(s.list) > maxSamples {
		t.Fatalf("%d samples", len(s.list))
	}
	now := clock(at)
	for i, x := range truth {
		_, age, known, _ := s.behind(run1, x.lsn, now)
		if !known || age < now-x.at {
			t.Fatalf("sample %d: replica is %v old, told %v (%v)", i, now-x.at, age, known)
		}
	}
	// What is recent is exact.
	last := truth[len(truth)-10]
	if _, age, _, _ := s.behind(run1, last.lsn, now); age != now-last.at {
		t.Fatalf("a recent sample was thinned: %v instead of %v", age, now-last.at)
	}
}

func TestAskingAllocatesNothing(t *testing.T) {
	var s Samples
	for n := range 1000 {
		s.Add(run1, lsn.LSN(n), clock(n))
	}
	if n := testing.AllocsPerRun(100, func() { s.AsOf(run1, 500) }); n != 0 {
		t.Fatalf("%v allocations, want none", n)
	}
}
