package routers

import (
	"context"
	"fmt"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
)

// HandOver gives a session to a router. The descriptor stays the caller's: after
// success it is to be closed, and the client's socket lives on in the router. The
// error is ErrNoRouter, when there is no router for some seconds or ctx ends; then
// the caller must shut the socket down: a router may still find the session in its
// queue.
func (f *Fleet) HandOver(ctx context.Context, r *handoff.Record, fd int) error {
	f.metrics.parked.Inc()
	defer f.metrics.parked.Dec()
	return f.handOver(ctx, &passing{rec: r, fds: []int{fd}, absence: absence, passed: map[*link]bool{}})
}

// passing is a session on its way to a router.
type passing struct {
	rec *handoff.Record
	fds []int
	// absence is how long it waits while there is no router.
	absence time.Duration
	// passed are the routers that did not take it; if again is not zero, they are asked
	// again after that time.
	passed map[*link]bool
	again  time.Duration
	// ready is called before it is offered, if it is not nil, and stays when it was not
	// taken. An error ends the hand-over.
	ready func() error
	stays func() error
}

func (f *Fleet) handOver(ctx context.Context, p *passing) error {
	began := time.Now()
	for {
		l, answers, err := f.await(ctx, p)
		if err != nil {
			return err
		}
		if p.ready != nil {
			if err := p.ready(); err != nil {
				f.unreserve(l, p.rec.Session)
				return err
			}
		}
		a := f.offer(ctx, l, p.rec, p.fds, answers)
		f.metrics.handovers.WithLabelValues(string(a)).Inc()
		if a == acknowledged {
			f.metrics.duration.Observe(time.Since(began).Seconds())
			return nil
		}
		p.passed[l] = true
		if p.stays != nil {
			if err := p.stays(); err != nil {
				return err
			}
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
		l, answers, busy, changed := f.choose(p.rec.Session, p.passed)
		switch {
		case l != nil:
			return l, answers, nil
		case busy:
			absent = nil
		case absent == nil:
			timer := time.NewTimer(p.absence)
			defer timer.Stop()
			absent = timer.C
		}
		var again <-chan time.Time
		if p.again > 0 && len(p.passed) > 0 {
			again = time.After(p.again)
		}
		select {
		case <-changed:
		case <-again:
			clear(p.passed)
		case <-absent:
			return nil, nil, ErrNoRouter
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("%w: %w", ErrNoRouter, context.Cause(ctx))
		}
	}
}

// choose reserves a place on the way to the router with the fewest sessions. Busy
// says that there is none now, but routers that will have places.
func (f *Fleet) choose(session string, passed map[*link]bool) (_ *link, _ <-chan answer, busy bool, changed <-chan struct{}) {
	f.state.Lock()
	defer f.state.Unlock()
	var best *link
	for l := range f.state.links {
		switch {
		case passed[l], l.stopping:
		case len(l.pending) >= window:
			busy = true
		case best == nil, l.load() < best.load(), l.load() == best.load() && l.id < best.id:
			best = l
		}
	}
	if best == nil {
		return nil, nil, busy, f.state.changed
	}
	ch := make(chan answer, 1)
	best.pending[session] = ch
	return best, ch, false, nil
}

// offer sends a session to a router and waits for its answer. A router that falls
// silent is given up: whatever it acknowledged until then still counts.
func (f *Fleet) offer(ctx context.Context, l *link, r *handoff.Record, fds []int, answers <-chan answer) answer {
	payload, err := r.Encode()
	if err != nil {
		f.log.Warn("session cannot be handed over", obs.KeySession, r.Session, obs.KeyError, err)
		f.unreserve(l, r.Session)
		return refused
	}
	if err := l.conn.SendEncoded(payload, fds...); err != nil {
		f.log.Warn("session was not handed over", obs.KeySession, r.Session, obs.KeyPeer, "router."+l.id, obs.KeyError, err)
		l.abandon()
		return <-answers // leave settles it
	}
	sent := time.Now()
	timer := time.NewTimer(silence)
	defer timer.Stop()
	for {
		select {
		case a := <-answers:
			return a
		case <-timer.C:
			if rest := silence - time.Since(l.lastHeard(sent)); rest > 0 {
				timer.Reset(rest)
				continue
			}
		case <-ctx.Done():
		}
		f.log.Warn("router does not answer", obs.KeySession, r.Session, obs.KeyPeer, "router."+l.id)
		l.abandon()
		if a := <-answers; a != lost {
			return a
		}
		return unanswered
	}
}
