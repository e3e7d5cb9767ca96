package breaker

import (
	"testing"
	"time"
)

var t0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// settings without jitter: in the middle of it.
func settings() *Settings {
	return &Settings{Base: 200 * time.Millisecond, Max: 5 * time.Second, Random: func() float64 { return 0.5 }}
}

func TestOneRefusalOpensAndOneProbeCloses(t *testing.T) {
	s, b := settings(), &Breaker{}
	if !b.Usable() || b.Probe(t0) {
		t.Fatal("a new breaker is closed")
	}
	if !b.Failed(s, t0) || b.Usable() || b.State() != Open {
		t.Fatalf("%v after a refusal, want open", b.State())
	}
	if b.Probe(t0.Add(199 * time.Millisecond)) {
		t.Fatal("probed before the wait was over")
	}
	now := t0.Add(200 * time.Millisecond)
	if !b.Probe(now) || b.State() != HalfOpen {
		t.Fatalf("%v after the wait, want half-open", b.State())
	}
	if b.Usable() {
		t.Fatal("clients' statements must not be the probe")
	}
	if b.Probe(now) {
		t.Fatal("one probe at a time")
	}
	b.Succeeded()
	if !b.Usable() {
		t.Fatal("a probe that succeeds closes the breaker")
	}
}

// Waits double up to the longest, and the first success begins anew.
func TestWaitsGrow(t *testing.T) {
	s, b := settings(), &Breaker{}
	now := t0
	for _, want := range []time.Duration{200, 400, 800, 1600, 3200, 5000, 5000} {
		if opened := b.Failed(s, now); opened != (now == t0) {
			t.Fatalf("opened %t at %v: it opens once", opened, now.Sub(t0))
		}
		if got := b.Until().Sub(now); got != want*time.Millisecond {
			t.Fatalf("wait %v, want %v", got, want*time.Millisecond)
		}
		now = b.Until()
		if !b.Probe(now) {
			t.Fatal("not probed after the wait")
		}
	}
	b.Succeeded()
	b.Failed(s, now)
	if got := b.Until().Sub(now); got != 200*time.Millisecond {
		t.Fatalf("wait %v after a success, want the first one", got)
	}
}

func TestManyFailuresDoNotOverflow(t *testing.T) {
	s, b := settings(), &Breaker{}
	s.Base, s.Max = time.Hour, 720*time.Hour
	now := t0
	for range 100 {
		b.Failed(s, now)
		if wait := b.Until().Sub(now); wait < time.Hour || wait > 720*time.Hour {
			t.Fatalf("wait %v", wait)
		}
		now = b.Until()
		b.Probe(now)
	}
}

// What fails while the breaker is open was begun before.
func TestLateFailuresDoNotProlongTheWait(t *testing.T) {
	s, b := settings(), &Breaker{}
	b.Failed(s, t0)
	until := b.Until()
	for range 10 {
		if b.Failed(s, t0.Add(100*time.Millisecond)) || b.Lost(s, t0) {
			t.Fatal("opened twice")
		}
	}
	if b.Until() != until {
		t.Fatalf("the wait has moved by %v", b.Until().Sub(until))
	}
}

func TestLosses(t *testing.T) {
	for name, c := range map[string]struct {
		every time.Duration
		opens bool
	}{
		"a server that crashes": {time.Millisecond, true},
		"one now and then":      {700 * time.Millisecond, false},
	} {
		s, b := settings(), &Breaker{}
		opened := false
		for i := range 10 {
			opened = b.Lost(s, t0.Add(time.Duration(i)*c.every)) || opened
		}
		if opened != c.opens {
			t.Errorf("%s: opened %t, want %t", name, opened, c.opens)
		}
	}
}

// Routers do not all come back at the same moment.
func TestJitter(t *testing.T) {
	for random, want := range map[float64]time.Duration{0: 160 * time.Millisecond, 0.75: 220 * time.Millisecond} {
		s, b := settings(), &Breaker{}
		s.Random = func() float64 { return random }
		b.Failed(s, t0)
		if got := b.Until().Sub(t0); got != want {
			t.Errorf("with %v: wait %v, want %v", random, got, want)
		}
	}
}
