package routers

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/listener/internal/parking"
	"github.com/pgpilot/pgpilot/services/listener/internal/refusal"
)

// A router that stops, or has too much to do, gives sessions away by way of a listener.
// Each goes to another router at once, or is parked here until there is one.

// parkTime is how long a session is parked. A router that is restarted is back long
// before.
const parkTime = time.Minute

// askAgain is when routers are asked again that have refused a session.
const askAgain = time.Second

// parked is a session that no router has.
type parked struct {
	rec  *handoff.Record
	fds  []int
	from *link
	// stop ends it.
	stop context.CancelCauseFunc
	// canceled says that a cancel request has come for what is unread; it is guarded by
	// the fleet's state.
	canceled bool
	// spot is its place in the lot, nil while it is on its way; only its own goroutine
	// looks at it.
	spot *parking.Spot
}

var (
	errStopping = errors.New("the listener is stopping")
	errLeft     = errors.New("one of its connections has ended")
	errLeave    = errors.New("what carries its client's bytes is going away")
)

// receive takes a session that a router gives away. An error ends the connection: then
// the router still has everything that was not acknowledged.
func (f *Fleet) receive(ctx context.Context, l *link, m *handoff.Message) error {
	rec, err := handoff.DecodeRecord(m.Body)
	if rec == nil {
		handoff.CloseFDs(m.FDs)
		return fmt.Errorf("receive session: %w", err)
	}
	want := len(m.FDs)
	if err == nil {
		want = 1
	}
	if err == nil && rec.Live != nil {
		want += len(rec.Live.Leases)
	}
	if len(m.FDs) != want {
		err = fmt.Errorf("it came with %d descriptors instead of %d", len(m.FDs), want)
	}
	ctx, stop := context.WithCancelCause(ctx)
	p := &parked{rec: rec, fds: m.FDs, from: l, stop: stop}
	if err == nil {
		err = f.admit(p)
	}
	if err != nil {
		stop(nil)
		handoff.CloseFDs(m.FDs)
		f.log.Info("a session was left with its router", obs.KeySession, rec.Session, obs.KeyPeer, "router."+l.id, obs.KeyReason, err.Error())
		return l.conn.Send(handoff.TypeRefuse, handoff.SessionRef{Session: rec.Session, Reason: err.Error()})
	}
	if err := l.conn.Send(handoff.TypeAck, handoff.SessionRef{Session: rec.Session}); err != nil {
		f.disown(p)
		return err
	}
	f.work.Go(func() { f.pass(ctx, p) })
	return nil
}

// admit notes a session that is about to be acknowledged.
func (f *Fleet) admit(p *parked) error {
	f.state.Lock()
	defer f.state.Unlock()
	id := p.rec.Session
	switch {
	case f.state.closed:
		return errStopping
	case f.state.parked[id] != nil:
		return errors.New("it is here already")
	}
	f.state.parked[id] = p
	delete(p.from.sessions, id)
	f.book.Adopt(id)
	f.metrics.parked.Inc()
	return nil
}

// disown leaves a session with its router that could not be acknowledged. Nothing is
// shut down.
func (f *Fleet) disown(p *parked) {
	f.state.Lock()
	f.dropLocked(p)
	p.from.sessions[p.rec.Session] = struct{}{}
	f.state.Unlock()
	p.stop(nil)
	handoff.CloseFDs(p.fds)
}

func (f *Fleet) dropLocked(p *parked) {
	delete(f.state.parked, p.rec.Session)
	f.metrics.parked.Dec()
	f.signalLocked()
}

// pass finds a router for a session, or ends it.
func (f *Fleet) pass(ctx context.Context, p *parked) {
	defer p.stop(nil)
	ctx, cancel := context.WithTimeout(ctx, parkTime)
	defer cancel()
	log := f.log.With(obs.KeySession, p.rec.Session)
	err := f.park(p)
	if err == nil {
		err = f.passOn(ctx, p)
	}
	f.state.Lock()
	f.dropLocked(p)
	f.state.Unlock()
	if err == nil {
		handoff.CloseFDs(p.fds) // they live on in the router
		log.Debug("session has gone to another router")
		return
	}
	f.book.Close(p.rec.Session)
	if p.spot != nil && !p.spot.Take() {
		err = errLeft
	}
	if !errors.Is(err, errLeft) {
		log.Warn("a session ends for want of a router", obs.KeyError, err)
		p.farewell()
	}
	for _, fd := range p.fds {
		_ = unix.Shutdown(fd, unix.SHUT_RDWR) // for whoever may still find it in a queue
		_ = unix.Close(fd)
	}
}

// passOn hands the session over, with few others at a time.
func (f *Fleet) passOn(ctx context.Context, p *parked) error {
	select {
	case f.places <- struct{}{}:
		defer func() { <-f.places }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	way := &passing{rec: p.rec, fds: p.fds, absence: parkTime, again: askAgain, passed: map[*link]bool{}}
	if !f.fromAlone(p.from) {
		way.passed[p.from] = true
	}
	way.ready = func() error { return f.unpark(p) }
	way.stays = func() error {
		delete(way.passed, p.from) // better there again than nowhere
		return f.park(p)
	}
	err := f.handOver(ctx, way)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// fromAlone reports whether there is no other router than the one that has given a
// session away.
func (f *Fleet) fromAlone(from *link) bool {
	f.state.Lock()
	defer f.state.Unlock()
	for l := range f.state.links {
		if l != from && !l.stopping {
			return false
		}
	}
	return true
}

// park puts the session into the lot, where it is seen when one of its connections ends.
func (f *Fleet) park(p *parked) (err error) {
	var servers []int
	if live := p.rec.Live; live != nil {
		for i := range live.Leases {
			if !live.Leases[i].Idle {
				servers = append(servers, p.fds[1+i])
			}
		}
	}
	p.spot, err = f.lot.Park(p.fds[0], servers, len(p.rec.Unread) > 0, func(lastWords []byte) {
		if len(lastWords) > 0 {
			_ = unix.Sendto(p.fds[0], lastWords, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) // its send buffer is empty
		}
		p.stop(errLeft)
	})
	return err
}

// unpark takes it out, to be offered to a router.
func (f *Fleet) unpark(p *parked) error {
	if !p.spot.Take() {
		p.spot = nil
		return errLeft
	}
	p.spot = nil
	f.state.Lock()
	defer f.state.Unlock()
	if p.canceled && p.rec.Live != nil {
		p.rec.Live.Canceled = true
	}
	return nil
}

// farewell tells the client why its session ends, as a server does that is shut down.
func (p *parked) farewell() {
	r := refusal.New(refusal.AdminShutdown, "terminating connection due to administrator command")
	if b, err := r.Encode(); err == nil {
		_ = unix.Sendto(p.fds[0], b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) // the client may be gone
	}
}

// cancelParked keeps a cancel request for a session that is parked: what it was meant
// for is what nobody has looked at yet, if there is something.
func (f *Fleet) cancelParked(key handoff.CancelKey) {
	f.state.Lock()
	defer f.state.Unlock()
	for _, p := range f.state.parked {
		own := p.rec.Cancel
		if own.PID == key.PID && subtle.ConstantTimeCompare(own.Secret, key.Secret) == 1 && len(p.rec.Unread) > 0 {
			p.canceled = true
		}
	}
}

// endParkedLocked ends those of the sessions that are parked.
func (f *Fleet) endParkedLocked(sessions []string) {
	for _, id := range sessions {
		if p := f.state.parked[id]; p != nil {
			p.stop(errLeave)
		}
	}
}

// note follows sessions that come to a router, or leave it, by another way than this
// listener.
func (f *Fleet) note(l *link, what handoff.Type, sessions []string) {
	f.state.Lock()
	defer f.state.Unlock()
	for _, id := range sessions {
		if what == handoff.TypeBegan {
			l.sessions[id] = struct{}{}
			f.book.Adopt(id)
			continue
		}
		if _, ok := l.sessions[id]; ok {
			delete(l.sessions, id)
			f.book.Close(id)
		}
	}
}

// stops notes that a router takes no more sessions.
func (f *Fleet) stops(l *link) {
	f.state.Lock()
	defer f.state.Unlock()
	l.stopping = true
	f.signalLocked()
}

// Refuse takes no more sessions from routers.
func (f *Fleet) Refuse() {
	f.state.Lock()
	defer f.state.Unlock()
	f.state.closed = true
}

// Empty waits until the sessions that are parked have gone, for as long as ctx lasts.
// Those that are left end with Run.
func (f *Fleet) Empty(ctx context.Context) {
	for {
		f.state.Lock()
		n, changed := len(f.state.parked), f.state.changed
		f.state.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
