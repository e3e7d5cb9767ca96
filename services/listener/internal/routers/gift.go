package routers

import (
	"context"
	"time"
)

// A listener that stops gives the sessions that are parked with it to another one.

const (
	// giftsAtOnce is how many sessions are offered to other listeners at a time: descriptors
	// in flight count against the file limit of this user (unix(7)), and each offer has a
	// connection of its own.
	giftsAtOnce = 16
	// giveAgain is when they are offered again that nobody took.
	giveAgain = 250 * time.Millisecond
)

// gift is an offer to other listeners. Who finds over closed may read taken.
type gift struct {
	over  chan struct{}
	taken bool
}

// entrust gives the session to another listener, with few others at a time. An error ends it.
func (f *Fleet) entrust(ctx context.Context, p *parked) (taken bool, err error) {
	select {
	case f.gifts <- struct{}{}:
		defer func() { <-f.gifts }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	payload, err := f.unpark(p, nil)
	if err != nil {
		return false, err
	}
	taken = f.kin.Give(ctx, p.Session, payload, p.fds)
	f.give(p, taken)
	if !taken {
		return false, f.park(p)
	}
	if p.leaves() {
		f.Leave(context.WithoutCancel(ctx), []string{p.Session})
	}
	return true, nil
}

// give notes whether another listener has the session now. Cancel requests that have come for
// it meanwhile go on looking for it then.
func (f *Fleet) give(p *parked, taken bool) {
	f.state.Lock()
	defer f.state.Unlock()
	if taken {
		f.dropLocked(p)
		f.state.moves++
		if !f.hasLocked(p.Session) {
			f.state.away[p.Session] = time.Now().Add(awayTime)
		}
	}
	p.gift.taken = taken
	close(p.gift.over)
	p.gift = nil
}

// awaitGift waits until it is known whether another listener has taken the session. If not,
// it is here, with the mark. At the end of ctx it is neither known to be here nor gone.
func (f *Fleet) awaitGift(ctx context.Context, g *gift) (found, gone bool) {
	select {
	case <-g.over:
		return !g.taken, g.taken
	case <-ctx.Done():
		return false, false
	}
}
