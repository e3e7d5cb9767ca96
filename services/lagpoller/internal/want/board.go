package want

import (
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// Lifetime is how long a want holds after it was last heard. Routers that go on
// waiting repeat it.
const Lifetime = time.Second

// Board holds the wants of all routers. It is safe for concurrent use.
type Board struct {
	mu    sync.Mutex
	wants map[string]entry
	bells map[chan struct{}]struct{}
}

type entry struct {
	position lsn.Position
	heard    time.Time
}

// NewBoard gives an empty board.
func NewBoard() *Board {
	return &Board{wants: make(map[string]entry), bells: make(map[chan struct{}]struct{})}
}

// Hear records what a router wants, in place of what it wanted before, and rings
// every bell.
func (b *Board) Hear(router string, p lsn.Position, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wants[router] = entry{position: p, heard: now}
	for bell := range b.bells {
		select {
		case bell <- struct{}{}:
		default: // still ringing
		}
	}
}

// Wanted gives the highest position anyone wants now, the zero Position when
// nobody wants anything.
func (b *Board) Wanted(now time.Time) lsn.Position {
	b.mu.Lock()
	defer b.mu.Unlock()
	var highest lsn.Position
	for router, e := range b.wants {
		if now.Sub(e.heard) > Lifetime {
			delete(b.wants, router)
			continue
		}
		highest = lsn.Max(highest, e.position)
	}
	return highest
}

// Bell gives a channel that receives whenever a router asks, and a function that
// takes it off the board.
func (b *Board) Bell() (<-chan struct{}, func()) {
	bell := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bells[bell] = struct{}{}
	return bell, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.bells, bell)
	}
}

// Behind reports whether a replica that has replayed up to p may still reach the
// wanted position. A want on an older timeline is of the history before a
// promotion, and this replica has left it.
func Behind(p, wanted lsn.Position) bool {
	if wanted.IsZero() || wanted.Timeline < p.Timeline {
		return false
	}
	return !p.Covers(wanted)
}
