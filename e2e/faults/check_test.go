package faults

import (
	"flag"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/consistency"
)

var (
	long    = flag.Duration("for", 0, "inject every kind of fault for this long, instead of a short run")
	seed    = flag.Uint64("seed", 1, "what is done by chance")
	mode    = flag.String("mode", mixed, "fencing mode of the sessions; mixed: all of them at once")
	clients = flag.Int("clients", 32, "clients of the long run")
)

// TestConsistency makes a short run, or the long one that was asked for.
func TestConsistency(t *testing.T) {
	p := plan{mode: *mode, sessions: 16, seed: *seed, faults: quickFaults(), duration: 20 * time.Second}
	if *long > 0 {
		p.faults, p.every, p.duration, p.sessions = everyFault(), true, *long, *clients
	}
	r := perform(t, p)
	if n := r.judge(); n < 1000 || r.replies[1].Load() < 100 {
		t.Errorf("%d operations, %d of them reads on replicas: that proves nothing", n, r.replies[1].Load())
	}
}

// TestRelaxedIsStale is the control: where nothing is promised, the same sessions and
// the same judge find stale reads.
func TestRelaxedIsStale(t *testing.T) {
	p := plan{mode: "relaxed", sessions: 8, seed: *seed, duration: time.Second, every: true,
		faults: []fault{{name: "replay paused", inject: (*run).pauseReplay}}}
	r := perform(t, p)
	h := r.history(p.mode)
	strict, err := consistency.ModeOf("strict", bound)
	r.ok(err)
	found := consistency.Check(h, strict.Promise)
	t.Logf("%d operations, %d stale reads", found.Operations(), found.Count(consistency.ReadYourWrites))
	if found.Count(consistency.ReadYourWrites) == 0 {
		t.Error("no session has missed a write of its own: a strict run that sees none proves nothing")
	}
	relaxed, err := consistency.ModeOf("relaxed", bound)
	r.ok(err)
	if found := consistency.Check(h, relaxed.Promise); len(found.Violations) > 0 {
		t.Errorf("even the relaxed promise is broken: %v", found.Violations[0])
	}
}
