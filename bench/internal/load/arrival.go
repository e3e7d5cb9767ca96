package load

import (
	"math/rand/v2"
	"time"
)

// arrivals is a Poisson process: the times, counted from the start of the run, at which
// one client's transactions are wanted.
type arrivals struct {
	random *rand.Rand
	rate   float64 // per second
	at     time.Duration
}

// newArrivals starts a process that is independent of those with other numbers.
func newArrivals(rate float64, seed uint64, number int) *arrivals {
	a := &arrivals{random: rand.New(rand.NewPCG(^seed, uint64(number))), rate: rate}
	a.advance()
	return a
}

// next is the earliest arrival that was not taken yet.
func (a *arrivals) next() time.Duration { return a.at }

// advance takes it.
func (a *arrivals) advance() {
	a.at += time.Duration(a.random.ExpFloat64() / a.rate * float64(time.Second))
}

// waiting is a heap of idle clients by their next arrival (container/heap).
type waiting []*client

func (w waiting) Len() int           { return len(w) }
func (w waiting) Less(i, j int) bool { return w[i].arrivals.next() < w[j].arrivals.next() }
func (w waiting) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

// Push implements heap.Interface.
func (w *waiting) Push(x any) { *w = append(*w, x.(*client)) }

// Pop implements heap.Interface.
func (w *waiting) Pop() any {
	last := len(*w) - 1
	c := (*w)[last]
	*w = (*w)[:last]
	return c
}
