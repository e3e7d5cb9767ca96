package routers

import (
	"context"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
)

// cancelWait bounds the wait for the routers' answers to a cancel request.
const cancelWait = 5 * time.Second

// cancellation is a cancel request that routers have been asked to act on. It is guarded
// by the fleet's state.
type cancellation struct {
	// asked is how many routers have yet to answer.
	asked int
	// over is closed when nothing is waited for any more.
	over  chan struct{}
	ended bool
}

// answered notes a router's answer, or that it gives none.
func (c *cancellation) answered(found bool) {
	c.asked--
	if (found || c.asked == 0) && !c.ended {
		c.ended = true
		close(c.over)
	}
}

// Cancel passes a cancel key to every router and calls over once the request can stop
// nothing any more that the session runs from then on: the router that has the session
// says so, or none has it. Clients take the end of their request's connection for that
// (PostgreSQL documentation: "Message Flow: Canceling Requests in Progress"). A router of
// a release that does not answer is not waited for, and no router longer than cancelWait
// or past the end of ctx. Cancel returns when the requests have left.
func (f *Fleet) Cancel(ctx context.Context, key handoff.CancelKey, over func()) {
	f.metrics.cancels.Inc()
	f.cancelParked(key)
	c, requests := f.cancellation()
	var sends sync.WaitGroup
	for l, n := range requests {
		sends.Go(func() {
			if err := l.conn.Send(handoff.TypeCancel, handoff.Cancel{CancelKey: key, Request: n}); err != nil {
				l.abandon()
			} else if l.answers {
				return
			}
			f.canceled(l, handoff.Canceled{Request: n})
		})
	}
	ctx, stop := context.WithTimeout(ctx, cancelWait)
	defer stop()
	if len(requests) > 0 {
		select {
		case <-c.over:
		case <-ctx.Done():
			f.log.Warn("a cancel request was not answered by every router")
		}
	}
	over()
	sends.Wait()
	f.state.Lock()
	defer f.state.Unlock()
	for l, n := range requests {
		delete(l.cancels, n)
	}
}

// cancellation prepares a cancel request: its number for each router.
func (f *Fleet) cancellation() (*cancellation, map[*link]uint64) {
	f.state.Lock()
	defer f.state.Unlock()
	c := &cancellation{asked: len(f.state.links), over: make(chan struct{})}
	requests := make(map[*link]uint64, len(f.state.links))
	for l := range f.state.links {
		l.lastCancel++
		l.cancels[l.lastCancel] = c
		requests[l] = l.lastCancel
	}
	return c, requests
}

// canceled notes a router's answer to a cancel request.
func (f *Fleet) canceled(l *link, a handoff.Canceled) {
	f.state.Lock()
	defer f.state.Unlock()
	if c := l.cancels[a.Request]; c != nil {
		delete(l.cancels, a.Request)
		c.answered(a.Found)
	}
}
