package throttle

import (
	"context"
	"sync"
	"time"
)

const (
	// free is how many failures cost nothing: people mistype.
	free = 2
	// first is the wait after one more; each further failure doubles it.
	first = 50 * time.Millisecond
	// longest bounds the wait.
	longest = time.Second
	// forget is how long after the last failure the count starts afresh.
	forget = time.Minute
	// maxGuessers bounds the memory. When it is full the one that failed least
	// recently is forgotten.
	maxGuessers = 10000
)

// Throttle remembers failed logins. It is safe for concurrent use.
type Throttle struct {
	now   func() time.Time
	state struct {
		sync.Mutex
		failures map[string]failure
	}
}

type failure struct {
	count int
	last  time.Time
}

// New gives a throttle that has seen nothing.
func New() *Throttle {
	t := &Throttle{now: time.Now}
	t.state.failures = map[string]failure{}
	return t
}

// Delay gives how long the next login waits, by who it comes from: an address and
// a user.
func (t *Throttle) Delay(who string) time.Duration {
	t.state.Lock()
	defer t.state.Unlock()
	f := t.state.failures[who]
	if f.count <= free || t.now().Sub(f.last) >= forget {
		return 0
	}
	d := first
	for n := free + 1; n < f.count && d < longest; n++ {
		d *= 2
	}
	return min(d, longest)
}

// Wait lets the delay pass.
func (t *Throttle) Wait(ctx context.Context, who string) error {
	d := t.Delay(who)
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Failed notes a failed login.
func (t *Throttle) Failed(who string) {
	t.state.Lock()
	defer t.state.Unlock()
	now := t.now()
	f, known := t.state.failures[who]
	if !known && len(t.state.failures) >= maxGuessers {
		t.makeRoomLocked(now)
	}
	if now.Sub(f.last) >= forget {
		f.count = 0
	}
	t.state.failures[who] = failure{count: f.count + 1, last: now}
}

// makeRoomLocked drops everyone whose time is over, or else the one that
// failed least recently.
func (t *Throttle) makeRoomLocked(now time.Time) {
	var oldest string
	for a, f := range t.state.failures {
		if now.Sub(f.last) >= forget {
			delete(t.state.failures, a)
			continue
		}
		if o, ok := t.state.failures[oldest]; !ok || f.last.Before(o.last) {
			oldest = a
		}
	}
	if len(t.state.failures) >= maxGuessers {
		delete(t.state.failures, oldest)
	}
}
