package routers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
)

// ErrNoRouter reports that there was no router to take a session, or none did in
// time.
var ErrNoRouter = errors.New("no router took the session")

// errPassedOver reports that every router that is there has passed a session over.
var errPassedOver = fmt.Errorf("%w: all have refused it", ErrNoRouter)

// HandOver gives a session to a router. The descriptor stays the caller's: after
// success it is to be closed, and the client's socket lives on in the router. The
// error is ErrNoRouter, when there is no router for some seconds or ctx ends; then
// the caller must shut the socket down: a router may still find the session in its
// queue.
func (f *Fleet) HandOver(ctx context.Context, r *handoff.Record, fd int) error {
	f.metrics.parked.Inc()
	defer f.metrics.parked.Dec()
	payload, err := r.Encode()
	if err != nil {
		return fmt.Errorf("hand session over: %w", err)
	}
	_, err = f.handOver(ctx, &passing{
		session: r.Session, fds: []int{fd}, absence: absence, passed: map[*link]bool{},
		ready: func(*link) ([]byte, error) { return payload, nil },
	})
	return err
}

// A session is offered again for which too many others were on their way: first after
// minPostponement, then each time after twice as long, up to maxPostponement. Others arrive
// meanwhile; to ask the kernel all the time takes the time from them.
const (
	minPostponement = 10 * time.Millisecond
	maxPostponement = 320 * time.Millisecond
)

// longer gives the postponement after that of last, which is 0 for none.
func longer(last time.Duration) time.Duration {
	return min(max(2*last, minPostponement), maxPostponement)
}

// passing is a session on its way to a router.
type passing struct {
	session string
	fds     []int
	// absence is how long it waits while there is no router.
	absence time.Duration
	// passed are the routers that did not take it.
	passed map[*link]bool
	// yields says that it ends with errPassedOver when all routers that are there have
	// passed it over. Otherwise it waits for another one to come.
	yields bool
	// ready is called before it is offered, and gives its record. An error ends the
	// hand-over.
	ready func(to *link) ([]byte, error)
	// sent is called when the record has left, if it is not nil, and stays when the session
	// was not taken; the latter's error ends the hand-over, too.
	sent  func()
	stays func() error
}

// handOver gives the session to a router, which it gives.
func (f *Fleet) handOver(ctx context.Context, p *passing) (*link, error) {
	began := time.Now()
	var pause time.Duration
	for {
		l, answers, err := f.await(ctx, p)
		if err != nil {
			return nil, err
		}
		payload, err := p.ready(l)
		if err != nil {
			f.unreserve(l, p.session)
			return nil, err
		}
		a := f.offer(l, p, payload, answers)
		f.metrics.handovers.WithLabelValues(string(a)).Inc()
		if a == acknowledged {
			f.metrics.duration.Observe(time.Since(began).Seconds())
			return l, nil
		}
		if p.stays != nil {
			if err := p.stays(); err != nil {
				return nil, err
			}
		}
		if a != postponed {
			p.passed[l], pause = true, 0
			continue
		}
		pause = longer(pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrNoRouter, context.Cause(ctx))
		}
	}
}

// unreserve gives a place on the way to a router back.
func (f *Fleet) unreserve(l *link, session string) {
	f.state.Lock()
	defer f.state.Unlock()
	delete(l.pending, session)
	f.signalLocked()
}

// await reserves a place on the way to a router. It waits for routers that are
// there and busy, and for a while for one to come.
func (f *Fleet) await(ctx context.Context, p *passing) (*link, <-chan answer, error) {
	var absent <-chan time.Time // nil, which never fires, while there is a router
	for {
		c := f.choose(p.session, p.passed)
		switch {
		case c.link != nil:
			return c.link, c.answers, nil
		case c.busy:
			absent = nil
		case p.yields && c.passed:
			return nil, nil, errPassedOver
		case absent == nil:
			timer := time.NewTimer(p.absence)
			defer timer.Stop()
			absent = timer.C
		}
		select {
		case <-c.changed:
		case <-absent:
			return nil, nil, ErrNoRouter
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("%w: %w", ErrNoRouter, context.Cause(ctx))
		}
	}
}

// choice is a router with a place on the way to it, or why there is none.
type choice struct {
	link    *link
	answers <-chan answer
	// busy says that there are routers that will have places, passed that there are
	// routers that were passed over.
	busy, passed bool
	// changed is closed when it is worth while to choose again.
	changed <-chan struct{}
}

// choose reserves a place on the way to the router with the fewest sessions.
func (f *Fleet) choose(session string, passed map[*link]bool) choice {
	f.state.Lock()
	defer f.state.Unlock()
	c := choice{changed: f.state.changed}
	for l := range f.state.links {
		switch {
		case l.stopping:
		case passed[l]:
			c.passed = true
		case len(l.pending) >= window:
			c.busy = true
		case c.link == nil, l.load() < c.link.load(), l.load() == c.link.load() && l.id < c.link.id:
			c.link = l
		}
	}
	if c.link != nil {
		ch := make(chan answer, 1)
		c.link.pending[session] = ch
		c.answers = ch
	}
	return c
}

// offer sends a session to a router and waits for its answer. A router that falls
// silent is given up, sooner when the listener stops, as nobody else is asked meanwhile:
// whatever it acknowledged until then still counts. Nothing else ends the wait: others are
// on their way over the same connection.
func (f *Fleet) offer(l *link, p *passing, payload []byte, answers <-chan answer) answer {
	switch err := l.conn.SendEncoded(payload, p.fds...); {
	case errors.Is(err, handoff.ErrCrowded):
		f.log.Debug("session is handed over later", obs.KeySession, p.session, obs.KeyPeer, "router."+l.id, obs.KeyError, err)
		f.unreserve(l, p.session)
		return postponed
	case err != nil:
		f.log.Warn("session was not handed over", obs.KeySession, p.session, obs.KeyPeer, "router."+l.id, obs.KeyError, err)
		l.abandon()
		return <-answers // leave settles it
	}
	if p.sent != nil {
		p.sent()
	}
	since, patience, stopping := time.Now(), f.silence, f.taking.Done()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case a := <-answers:
			return a
		case <-stopping:
			since, patience, stopping = time.Now(), lastSilence, nil
		case <-timer.C:
		}
		if rest := patience - time.Since(l.lastHeard(since)); rest > 0 {
			timer.Reset(rest)
			continue
		}
		f.log.Warn("router does not answer", obs.KeySession, p.session, obs.KeyPeer, "router."+l.id)
		l.abandon()
		if a := <-answers; a != lost {
			return a
		}
		return unanswered
	}
}
