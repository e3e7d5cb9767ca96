package routers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/listener/internal/parking"
	"github.com/pgpilot/pgpilot/services/listener/internal/refusal"
)

// A router that stops, or has too much to do, gives sessions away by way of a listener.
// Each goes to another router at once, or is parked here until there is one. A listener
// that stops gives those that are parked to another listener.

// parkTime is how long a session is parked. A router that is restarted is back long
// before.
const parkTime = time.Minute

// askAgain is when routers are asked again that have refused a session.
const askAgain = time.Second

// parked is a session that no router has.
type parked struct {
	*handoff.Parcel
	// fds are the client's and those of its server connections, in the parcel's order.
	fds []int
	// from is the router that has given it away, nil if another listener has.
	from *link
	// work lasts as long as it is kept; stop ends it.
	work context.Context
	stop context.CancelCauseFunc
	// spot is its place in the lot, nil while it is on its way; only its own goroutine
	// looks at it.
	spot *parking.Spot

	// What follows is guarded by the fleet's state. canceled says that a cancel request has
	// come for what is unread.
	canceled bool
	// to is the router that it is being offered to, nil for none; away says that its record
	// has left, and behind has the numbers of the cancel requests that are to follow it.
	to     *link
	away   bool
	behind []uint64
	// told says that its record has been given with the mark of a cancel request.
	told bool
	// gift is the offer of it to other listeners that is under way, nil for none.
	gift *gift
}

var (
	errStopping = errors.New("the listener takes no sessions now")
	errLeft     = errors.New("one of its connections has ended")
	errLeave    = errors.New("what carries its client's bytes is going away")
	errNotYet   = errors.New("there is no router for it")
)

// receive takes a session that a router gives away. An error ends the connection: then
// the router still has everything that was not acknowledged.
func (f *Fleet) receive(l *link, m *handoff.Message) error {
	return f.take(l.conn, l, m)
}

// Receive takes a session that another listener gives away, over the connection by which
// it does. After an error that one still has it.
func (f *Fleet) Receive(c *handoff.Conn, m *handoff.Message) error {
	return f.take(c, nil, m)
}

// take answers for a session, and finds a router for it if it is taken.
func (f *Fleet) take(c *handoff.Conn, from *link, m *handoff.Message) error {
	parcel, err := handoff.OpenParcel(m.Body)
	if err != nil {
		handoff.CloseFDs(m.FDs)
		return fmt.Errorf("receive session: %w", err)
	}
	p := &parked{Parcel: parcel, fds: m.FDs, from: from}
	var ctx context.Context
	if m.Lost {
		err = handoff.ErrLost
	} else {
		ctx, err = f.admit(p)
	}
	if err != nil {
		handoff.CloseFDs(m.FDs)
		f.log.Info("a session was left where it was", obs.KeySession, p.Session, obs.KeyPeer, p.origin(), obs.KeyReason, err.Error())
		alone := !errors.Is(err, errStopping) && !errors.Is(err, handoff.ErrLost)
		return c.Send(handoff.TypeRefuse, handoff.SessionRef{Session: p.Session, Reason: err.Error(), Alone: alone})
	}
	if err := c.Send(handoff.TypeAck, handoff.SessionRef{Session: p.Session}); err != nil {
		f.disown(p)
		return err
	}
	go func() { // work has counted it
		defer f.work.Done()
		f.pass(ctx, p)
	}()
	return nil
}

// origin names where the session has come from.
func (p *parked) origin() string {
	if p.from == nil {
		return "another listener"
	}
	return "router." + p.from.id
}

// leaves reports whether it has been told to end.
func (p *parked) leaves() bool { return errors.Is(context.Cause(p.work), errLeave) }

// admit notes a session that is about to be acknowledged, counts its work, and gives the
// context of that.
func (f *Fleet) admit(p *parked) (context.Context, error) {
	if want := 1 + len(p.Held); len(p.fds) != want {
		return nil, fmt.Errorf("it came with %d descriptors instead of %d", len(p.fds), want)
	}
	f.state.Lock()
	defer f.state.Unlock()
	switch {
	case f.state.closed || !f.state.running:
		return nil, errStopping
	case f.state.parked[p.Session] != nil:
		return nil, errors.New("it is here already")
	}
	ctx, stop := context.WithCancelCause(f.life)
	p.work, p.stop = ctx, stop
	f.work.Add(1)
	f.state.parked[p.Session] = p
	f.state.moves++
	if p.from != nil {
		delete(p.from.sessions, p.Session)
	}
	delete(f.state.away, p.Session)
	f.book.Adopt(p.Session)
	f.metrics.parked.Inc()
	return ctx, nil
}

// disown leaves a session where it was that could not be acknowledged. Nothing is shut
// down.
func (f *Fleet) disown(p *parked) {
	defer f.work.Done()
	f.state.Lock()
	f.dropLocked(p)
	if p.from != nil {
		p.from.sessions[p.Session] = struct{}{}
	} else {
		f.state.away[p.Session] = time.Now().Add(awayTime)
	}
	f.state.Unlock()
	p.stop(nil)
	handoff.CloseFDs(p.fds)
}

// dropLocked notes that a session is not parked any more.
func (f *Fleet) dropLocked(p *parked) {
	if f.state.parked[p.Session] != p {
		return
	}
	delete(f.state.parked, p.Session)
	f.metrics.parked.Dec()
	f.signalLocked()
}

// pass finds a router for a session, or ends it.
func (f *Fleet) pass(ctx context.Context, p *parked) {
	defer p.stop(nil)
	ctx, cancel := context.WithTimeout(ctx, parkTime)
	defer cancel()
	log := f.log.With(obs.KeySession, p.Session)
	arrived := sync.OnceFunc(func() { f.arrived(p) })
	defer arrived()
	if p.from != nil && f.fromAlone(p.from) {
		arrived() // it may take a while
	}
	err := f.park(p)
	if err == nil {
		err = f.passOn(ctx, p)
	}
	if err == nil {
		handoff.CloseFDs(p.fds) // they live on where it is now
		log.Debug("session has gone to another router")
		return
	}
	f.state.Lock()
	f.dropLocked(p)
	f.closeLocked(p.Session)
	f.state.Unlock()
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
	f.kin.Ended(context.WithoutCancel(ctx), []string{p.Session})
}

// arrived tells the router that has given the session away that it need not wait with others
// on its behalf.
func (f *Fleet) arrived(p *parked) {
	if p.from == nil {
		return
	}
	if err := p.from.conn.Send(handoff.TypeArrived, handoff.Arrived{Sessions: []string{p.Session}}); err != nil {
		p.from.abandon()
	}
}

// passOn gives the session to a router, or to another listener when this one stops. That is
// asked again and again then, and routers in between.
func (f *Fleet) passOn(ctx context.Context, p *parked) error {
	passed := map[*link]bool{}
	if p.from != nil && !f.fromAlone(p.from) {
		passed[p.from] = true
	}
	seeking, stopSeeking := context.WithCancelCause(ctx)
	defer stopSeeking(nil)
	stop := context.AfterFunc(f.taking, func() { stopSeeking(errStopping) })
	defer stop()
	err := f.seek(seeking, p, passed)
	for errors.Is(err, errNotYet) && ctx.Err() == nil {
		if taken, err := f.entrust(ctx, p); taken || err != nil {
			return err
		}
		again, stop := context.WithTimeout(ctx, giveAgain)
		err = f.seek(again, p, passed)
		stop()
	}
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	return err
}

// seek looks for a router. The error is errNotYet if there was none for the session, which is
// parked as before, until the end of seeking.
func (f *Fleet) seek(seeking context.Context, p *parked, passed map[*link]bool) error {
	for {
		f.state.Lock()
		joined := f.state.joined
		f.state.Unlock()
		err := f.tryRouters(seeking, p, passed)
		switch {
		case err != nil && seeking.Err() != nil && p.spot != nil:
			return errNotYet
		case !errors.Is(err, errPassedOver):
			return err
		case passed[p.from]:
			delete(passed, p.from) // better there again than nowhere
			continue
		}
		clear(passed) // others may have more luck in its place
		select {
		case <-joined:
		case <-time.After(askAgain):
		case <-seeking.Done():
		}
	}
}

// tryRouters hands the session over, with few others at a time. The end of seeking ends the
// wait for one.
func (f *Fleet) tryRouters(seeking context.Context, p *parked, passed map[*link]bool) error {
	select {
	case f.places <- struct{}{}:
		defer func() { <-f.places }()
	case <-seeking.Done():
		return context.Cause(seeking)
	}
	to, err := f.handOver(seeking, &passing{
		session: p.Session, fds: p.fds, absence: parkTime, passed: passed, yields: true,
		ready: func(to *link) ([]byte, error) { return f.unpark(p, to) },
		sent:  func() { f.follow(p) },
		stays: func() error { return f.stay(p) },
	})
	if err == nil && p.leaves() {
		// It was told to end when it was on its way.
		if err := to.conn.Send(handoff.TypeLeave, handoff.Leave{Sessions: []string{p.Session}}); err != nil {
			to.abandon()
		}
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
	for i, held := range p.Held {
		if held {
			servers = append(servers, p.fds[1+i])
		}
	}
	p.spot, err = f.lot.Park(p.fds[0], servers, p.Unread, func(lastWords []byte) {
		if len(lastWords) > 0 {
			_ = unix.Sendto(p.fds[0], lastWords, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) // its send buffer is empty
		}
		p.stop(errLeft)
	})
	return err
}

// unpark takes it out, to be offered to a router, or to another listener, and gives its
// record.
func (f *Fleet) unpark(p *parked, to *link) ([]byte, error) {
	taken := p.spot.Take()
	p.spot = nil
	if !taken {
		return nil, errLeft
	}
	f.state.Lock()
	p.to, p.told = to, p.canceled
	if to == nil {
		p.gift = &gift{over: make(chan struct{})}
	}
	canceled := p.canceled
	f.state.Unlock()
	if !canceled {
		return p.Payload(), nil
	}
	payload, err := p.Parcel.Canceled()
	if err != nil {
		f.log.Warn("a cancel request is lost", obs.KeySession, p.Session, obs.KeyError, err)
		return p.Payload(), nil
	}
	return payload, nil
}

// follow sends behind a record what has come for its session in the meantime.
func (f *Fleet) follow(p *parked) {
	f.state.Lock()
	to, behind := p.to, p.behind
	p.away, p.behind = true, nil
	f.state.Unlock()
	for _, n := range behind {
		f.sendCancel(to, n, p.Cancel)
	}
}

// stay has a session be parked as before that the router has not taken which it was offered
// to. Cancel requests that were to follow its record to that one are over: the record that it
// is offered with next has the mark.
func (f *Fleet) stay(p *parked) error {
	f.state.Lock()
	for _, n := range p.behind {
		f.canceledLocked(p.to, handoff.Canceled{Request: n, Found: true})
	}
	p.to, p.away, p.behind = nil, false, nil
	f.state.Unlock()
	return f.park(p)
}

// readable reports whether the client has sent something that nobody has read.
func readable(client int) bool {
	var first [1]byte
	n, _, err := unix.Recvfrom(client, first[:], unix.MSG_DONTWAIT|unix.MSG_PEEK)
	return err == nil && n > 0
}

// farewell tells the client why its session ends, as a server does that is shut down.
func (p *parked) farewell() {
	r := refusal.New(refusal.AdminShutdown, "terminating connection due to administrator command")
	if b, err := r.Encode(); err == nil {
		_ = unix.Sendto(p.fds[0], b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) // the client may be gone
	}
}

// Refuse takes no more sessions from routers and other listeners, and gives those that
// are parked to another listener.
func (f *Fleet) Refuse() {
	f.state.Lock()
	defer f.state.Unlock()
	f.state.closed = true
	f.refuse()
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
