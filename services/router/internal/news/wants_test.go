package news

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// speaker runs wants in the bubble's time and keeps what was said when.
func speaker(t *testing.T) (w *wants, said func() (positions []lsn.LSN, times []time.Duration)) {
	w = newWants()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var positions []lsn.LSN
	var times []time.Duration
	begin := time.Now()
	go w.run(ctx, func(at lsn.Position, now time.Time) {
		positions, times = append(positions, at.LSN), append(times, now.Sub(begin))
	})
	synctest.Wait()
	return w, func() ([]lsn.LSN, []time.Duration) { synctest.Wait(); return positions, times }
}

func want(n int) lsn.Position { return lsn.Position{Timeline: 1, LSN: lsn.LSN(n)} }

func TestWantsAreSaidOnceAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, said := speaker(t)
		for i := range 1000 { // a hundred in each millisecond, out of order
			w.put(want(i ^ 1))
			synctest.Wait()
			time.Sleep(10 * time.Microsecond)
		}
		time.Sleep(wantLeast)
		positions, times := said()
		if len(positions) < 10 || len(positions) > 11 {
			t.Fatalf("said %v", positions)
		}
		for i := 1; i < len(times); i++ {
			if times[i]-times[i-1] < wantLeast {
				t.Errorf("said %v and then %v", times[i-1], times[i])
			}
		}
		if !slices.IsSorted(positions) || positions[len(positions)-1] != 999 {
			t.Errorf("said %v, want the highest of each time", positions)
		}
	})
}

func TestTheFirstWantIsSaidAtOnceAndRepeatedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, said := speaker(t)
		for range 500 { // one position for half a second
			w.put(want(7))
			time.Sleep(wantLeast)
		}
		_, times := said()
		if want := []time.Duration{0, wantPause, 2 * wantPause}; !slices.Equal(times, want) {
			t.Errorf("said at %v, want %v", times, want)
		}
	})
}

// A want of a newer timeline is higher than any before it.
func TestAWantAfterAPromotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, said := speaker(t)
		w.put(want(1))
		synctest.Wait()
		w.put(want(900))
		w.put(lsn.Position{Timeline: 2, LSN: 100})
		w.put(want(901))
		time.Sleep(wantLeast)
		if positions, _ := said(); !slices.Equal(positions, []lsn.LSN{1, 100}) {
			t.Errorf("said %v", positions)
		}
	})
}
