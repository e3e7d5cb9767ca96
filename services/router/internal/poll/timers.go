package poll

import (
	"container/heap"
	"time"
)

// Timers are the loop's deadlines. They belong to the loop.
type Timers struct{ h timerHeap }

// Timer is one deadline; its zero value is not set. It must not be copied while
// it is set.
type Timer struct {
	at    time.Time
	f     func()
	index int // position in the heap plus one; zero: not set
}

// Set makes t run f at the given time, in place of what it was set to.
func (ts *Timers) Set(t *Timer, at time.Time, f func()) {
	t.at, t.f = at, f
	if t.index == 0 {
		heap.Push(&ts.h, t)
		return
	}
	heap.Fix(&ts.h, t.index-1)
}

// Stop unsets t; it may be unset already.
func (ts *Timers) Stop(t *Timer) {
	if t.index != 0 {
		heap.Remove(&ts.h, t.index-1)
	}
}

// Next gives the time until the first deadline, negative when none is set and
// zero when one is due.
func (ts *Timers) Next(now time.Time) time.Duration {
	if len(ts.h) == 0 {
		return -1
	}
	return max(0, ts.h[0].at.Sub(now))
}

// Run runs everything that is due.
func (ts *Timers) Run(now time.Time) {
	for len(ts.h) > 0 && !ts.h[0].at.After(now) {
		t := heap.Pop(&ts.h).(*Timer)
		t.f()
	}
}

type timerHeap []*Timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}
func (h *timerHeap) Push(x any) {
	t := x.(*Timer)
	*h = append(*h, t)
	t.index = len(*h)
}
func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = 0
	return t
}

// Active reports whether the timer is set.
func (t *Timer) Active() bool { return t.index != 0 }
