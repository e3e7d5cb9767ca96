package routers

import (
	"context"
	"crypto/subtle"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
)

// cancelWait bounds the wait for the answers to a cancel request.
const cancelWait = 5 * time.Second

// cancellation is a cancel request that routers have been asked to act on. It is guarded
// by the fleet's state.
type cancellation struct {
	// asked is how many routers have yet to answer.
	asked int
	// over is closed when nothing is waited for any more.
	over  chan struct{}
	ended bool
	// found says that a router has the session.
	found bool
}

// answered notes a router's answer, or that it gives none.
func (c *cancellation) answered(found bool) {
	c.asked--
	c.found = c.found || found
	if (found || c.asked == 0) && !c.ended {
		c.ended = true
		close(c.over)
	}
}

// Cancel has a cancel request acted on by whoever has the session, here or at another
// listener or router of this host, and calls over once it can stop nothing any more that
// the session runs from then on: who has the session says so, or nobody has it. Clients
// take the end of their request's connection for that (PostgreSQL documentation: "Message
// Flow: Canceling Requests in Progress"). A router of a release that does not answer is
// not waited for, and nobody longer than cancelWait or past the end of ctx. Cancel returns
// when the requests have left.
func (f *Fleet) Cancel(ctx context.Context, key handoff.CancelKey, over func(found bool)) {
	f.metrics.cancels.Inc()
	ctx, stop := context.WithTimeout(ctx, cancelWait)
	defer stop()
	var sends sync.WaitGroup
	defer sends.Wait()
	over(f.find(ctx, key, &sends))
	stop() // who has not answered yet need not
}

// find has the request acted on by whoever has the session, and reports whether somebody has.
func (f *Fleet) find(ctx context.Context, key handoff.CancelKey, sends *sync.WaitGroup) (found bool) {
	for round := 1; ; round++ {
		moves := f.moves()
		found, _ := f.cancelParked(ctx, key, sends)
		found = found || f.cancelElsewhere(ctx, key, sends)
		if found || ctx.Err() != nil || round == maxRounds || f.moves() == moves {
			return found
		}
		// A session has moved meanwhile: it may be where was asked before it came.
	}
}

// cancelElsewhere asks the routers and the other listeners at once: one of either that hangs
// must not keep the others from being asked. A listener that does not have the session may
// have given it to a router after that was asked, and the news of that may still be on its
// way.
func (f *Fleet) cancelElsewhere(ctx context.Context, key handoff.CancelKey, sends *sync.WaitGroup) (found bool) {
	answers := make(chan bool, 2)
	others := false
	sends.Go(func() {
		var found bool
		found, others = f.kin.Cancel(ctx, key)
		answers <- found
	})
	sends.Go(func() { answers <- f.cancelAtRouters(ctx, key, sends) })
	return <-answers || <-answers || others && ctx.Err() == nil && f.cancelAtRouters(ctx, key, sends) //nolint:staticcheck // two answers
}

// maxRounds is how often a session is looked for of which nobody knows, while others move.
const maxRounds = 5

// answerCancel tells a router that a request which it has sent on is over.
func (f *Fleet) answerCancel(l *link, request uint64, found bool) {
	if request == 0 {
		return // of an earlier release
	}
	if err := l.conn.Send(handoff.TypeCanceled, handoff.Canceled{Request: request, Found: found}); err != nil {
		l.abandon()
	}
}

// CancelParked has a cancel request acted on if its session is parked here, as Cancel
// does, or was given away from here meanwhile. It waits no longer than ctx lasts, and returns
// when the requests have left.
func (f *Fleet) CancelParked(ctx context.Context, key handoff.CancelKey, over func(found bool)) {
	var sends sync.WaitGroup
	defer sends.Wait()
	found, gone := f.cancelParked(ctx, key, &sends)
	over(found || gone && f.find(ctx, key, &sends))
}

// moves counts the sessions that have come to somebody.
func (f *Fleet) moves() uint64 {
	f.state.Lock()
	defer f.state.Unlock()
	return f.state.moves
}

// cancelAtRouters asks every router.
func (f *Fleet) cancelAtRouters(ctx context.Context, key handoff.CancelKey, sends *sync.WaitGroup) (found bool) {
	f.state.Lock()
	links := make([]*link, 0, len(f.state.links))
	for l := range f.state.links {
		links = append(links, l)
	}
	c, requests := f.requestLocked(links)
	f.state.Unlock()
	for l, n := range requests {
		sends.Go(func() { f.sendCancel(l, n, key) })
	}
	return f.awaitCancel(ctx, c, requests)
}

// requestLocked prepares a cancel request: its number for each router.
func (f *Fleet) requestLocked(links []*link) (*cancellation, map[*link]uint64) {
	c := &cancellation{asked: len(links), over: make(chan struct{})}
	requests := make(map[*link]uint64, len(links))
	for _, l := range links {
		l.lastCancel++
		l.cancels[l.lastCancel] = c
		requests[l] = l.lastCancel
	}
	return c, requests
}

// sendCancel asks one. A router that does not answer has done what it does once it is
// asked.
func (f *Fleet) sendCancel(l *link, request uint64, key handoff.CancelKey) {
	if err := l.conn.Send(handoff.TypeCancel, handoff.Cancel{CancelKey: key, Request: request}); err != nil {
		l.abandon()
	} else if l.answers {
		return
	}
	f.canceled(l, handoff.Canceled{Request: request})
}

// awaitCancel waits for the answers.
func (f *Fleet) awaitCancel(ctx context.Context, c *cancellation, requests map[*link]uint64) (found bool) {
	if len(requests) > 0 {
		select {
		case <-c.over:
		case <-ctx.Done():
			f.log.Warn("a cancel request was not answered by every router")
		}
	}
	f.state.Lock()
	defer f.state.Unlock()
	for l, n := range requests {
		delete(l.cancels, n)
	}
	return c.found
}

// canceled notes a router's answer to a cancel request.
func (f *Fleet) canceled(l *link, a handoff.Canceled) {
	f.state.Lock()
	defer f.state.Unlock()
	f.canceledLocked(l, a)
}

func (f *Fleet) canceledLocked(l *link, a handoff.Canceled) {
	if c := l.cancels[a.Request]; c != nil {
		delete(l.cancels, a.Request)
		c.answered(a.Found)
	}
}

// cancelParked looks for the session among those that are parked. The request was meant
// for what the client had sent by then, and that nobody has looked at yet: it travels with
// the session for that, or is dropped if there is nothing. A router that the session is
// being offered to hears of it behind the record: it may have the session, or not. Where
// another listener is being offered it, its answer is waited for: gone says that it has
// been taken, and the request is to be made there, or wherever it has gone on to.
func (f *Fleet) cancelParked(ctx context.Context, key handoff.CancelKey, sends *sync.WaitGroup) (found, gone bool) {
	f.state.Lock()
	p := f.parkedWithLocked(key)
	if p == nil {
		f.state.Unlock()
		return false, false
	}
	p.canceled = p.canceled || p.Unread || readable(p.fds[0])
	if g := p.gift; g != nil && p.canceled && !p.told {
		f.state.Unlock()
		return f.awaitGift(ctx, g)
	}
	if p.to == nil {
		f.state.Unlock()
		return true, false
	}
	to := p.to
	c, requests := f.requestLocked([]*link{to})
	if p.away {
		sends.Go(func() { f.sendCancel(to, requests[to], key) })
	} else {
		p.behind = append(p.behind, requests[to])
	}
	f.state.Unlock()
	f.awaitCancel(ctx, c, requests)
	return true, false
}

// parkedWithLocked gives the parked session with the cancel key, nil for none.
func (f *Fleet) parkedWithLocked(key handoff.CancelKey) *parked {
	for _, p := range f.state.parked {
		if p.Cancel.PID == key.PID && subtle.ConstantTimeCompare(p.Cancel.Secret, key.Secret) == 1 {
			return p
		}
	}
	return nil
}
