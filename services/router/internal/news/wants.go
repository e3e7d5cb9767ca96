package news

import (
	"context"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

const (
	// wantPause is how often one position is asked for at most.
	wantPause = 200 * time.Millisecond
	// wantLeast is the least time between two wants: a lagpoller polls no faster
	// (fencing.burst_interval).
	wantLeast = time.Millisecond
)

// wants gathers the positions that sessions wait for. Only the highest counts.
type wants struct {
	bell chan struct{} // holds one

	mu      sync.Mutex
	highest lsn.Position // of those not yet taken; guarded by mu
}

func newWants() *wants { return &wants{bell: make(chan struct{}, 1)} }

// put never blocks.
func (w *wants) put(at lsn.Position) {
	w.mu.Lock()
	w.highest = lsn.Max(w.highest, at)
	w.mu.Unlock()
	select {
	case w.bell <- struct{}{}:
	default: // rung already
	}
}

func (w *wants) take() lsn.Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.highest
	w.highest = lsn.Position{}
	return at
}

// run says what is wanted until ctx ends: at once, then no more often than once in
// wantLeast, the highest of what has come meanwhile.
func (w *wants) run(ctx context.Context, say func(at lsn.Position, now time.Time)) {
	var last lsn.Position
	var said time.Time
	pause := time.NewTimer(wantLeast)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.bell:
		}
		at, now := w.take(), time.Now()
		if last.Covers(at) && now.Sub(said) < wantPause {
			continue
		}
		last, said = at, now
		say(at, now)
		pause.Reset(wantLeast)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}
