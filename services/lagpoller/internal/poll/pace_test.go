package poll

import (
	"math"
	"testing"
	"time"
)

func TestBackoffGrowsToItsMaximum(t *testing.T) {
	s := Settings{Interval: 7 * time.Second, FailureThreshold: 3, BaseBackoff: time.Second, MaxBackoff: 30 * time.Second}
	for failures, want := range map[int]time.Duration{
		3: time.Second, 4: 2 * time.Second, 5: 4 * time.Second, 7: 16 * time.Second, 8: 30 * time.Second, 40: 30 * time.Second, math.MaxInt: 30 * time.Second,
	} {
		for range 100 {
			if got := s.backoff(failures); got > want || got < want-want/4 {
				t.Fatalf("%d failures: pause of %v, want %v less at most a quarter", failures, got, want)
			}
		}
	}
	for failures := range 3 {
		if got := s.backoff(failures); got != s.Interval {
			t.Errorf("%d failures: pause of %v", failures, got)
		}
	}
	s.BaseBackoff, s.MaxBackoff = 1, 1 // no room for chance
	if got := s.backoff(3); got != 1 {
		t.Errorf("tiny pause: %v", got)
	}
}

func TestABurstSlowsDownWhereNothingMoves(t *testing.T) {
	s := Settings{Burst: time.Millisecond}
	for still, want := range map[time.Duration]time.Duration{
		0: time.Millisecond, patience - 1: time.Millisecond, 200 * time.Millisecond: 10 * time.Millisecond, time.Hour: slowest,
	} {
		if got := s.burstPause(still); got != want {
			t.Errorf("standing still for %v: pause of %v, want %v", still, got, want)
		}
	}
	s.Burst = time.Second
	if got := s.burstPause(time.Hour); got != time.Second {
		t.Errorf("the pause fell below the configured one: %v", got)
	}
}
