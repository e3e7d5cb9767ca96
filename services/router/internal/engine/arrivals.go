package engine

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/services/router/internal/intake"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// arrival is a session that has come and is not the router's yet. Its client's descriptor
// is the first.
type arrival struct {
	rec  *handoff.Record
	fds  []int
	from *intake.Link
	// back says that it was here before, ends that it has been told to end.
	back, ends bool
	// requests are the cancel requests that have come for it. Each is to be told when it is
	// over, and whether the session is here.
	requests []func(found bool)
}

// answer ends the cancel requests.
func (a *arrival) answer(found bool) {
	for _, over := range a.requests {
		over(found)
	}
	a.requests = nil
}

// Adopt takes a session over from a listener, or refuses it; from the link's goroutine. It
// begins when its acknowledgement has left: in the same turn of the loop, if the link has
// nothing else to send, as its client may be waiting. The link goes on meanwhile: of many
// that come at once, each would otherwise wait for a turn of the loop of its own.
func (e *Engine) Adopt(rec *handoff.Record, fds []int, from *intake.Link) {
	refuse := func(why error) {
		handoff.CloseFDs(fds)
		from.Refuse(rec.Session, why)
	}
	if !e.Post(func() {
		if err := e.admits(rec, len(fds)); err != nil {
			refuse(err)
			return
		}
		now := &arrival{rec: rec, fds: fds, from: from}
		if a, ok := e.arriving[rec.Session]; ok { // over a link that the listener has given up
			handoff.CloseFDs(a.fds)
			now.ends, now.requests = a.ends, a.requests
		}
		if from.TryAck(rec.Session) {
			delete(e.arriving, rec.Session)
			e.own(now)
			return
		}
		e.arriving[rec.Session] = now
		from.Ack(rec.Session)
	}) {
		refuse(errStopping)
	}
}

// Disown leaves an arrived session with its listener; from any goroutine.
func (e *Engine) Disown(session string, from *intake.Link) {
	e.Post(func() {
		if a, ok := e.arriving[session]; ok && a.from == from {
			delete(e.arriving, session)
			handoff.CloseFDs(a.fds)
			a.answer(false)
			e.endIfEmpty()
		}
	})
}

// Own begins an arrived session; from any goroutine.
func (e *Engine) Own(session string, from *intake.Link) {
	e.Post(func() {
		a, ok := e.arriving[session]
		if !ok || a.from != from {
			return
		}
		delete(e.arriving, session)
		e.own(a)
	})
}

// own begins a session whose acknowledgement has left.
func (e *Engine) own(a *arrival) {
	e.opts.Began(a.rec.Session, a.from)
	e.commence(a)
}

// commence begins a session that is the router's, or ends it if that is impossible.
func (e *Engine) commence(a *arrival) {
	err := e.begin(a)
	a.answer(true)
	if err != nil {
		e.log.Error("cannot serve session", obs.KeySession, a.rec.Session, obs.KeyError, err)
		for _, fd := range a.fds {
			poll.Hangup(fd)
		}
		e.opts.Ended(a.rec.Session)
		e.endIfEmpty()
	}
}

// begin begins a session. After an error the descriptors are still the caller's.
func (e *Engine) begin(a *arrival) error {
	rec := a.rec
	c := &client{on: -1, log: e.log.With(obs.KeySession, rec.Session)}
	c.login = upstream.Login{User: rec.User, Database: rec.Database, Startup: upstream.EncodeStartup(rec.ServerStartup())}
	if err := c.open(e, a.fds[0], c, poll.In|poll.PeerClosed); err != nil {
		return err
	}
	c.settings = e.settingsFor(c.login)
	leased, err := e.takeLeases(c, rec, a.fds[1:])
	if err != nil {
		c.letLoose()
		return err
	}
	c.beginnings = e.beginnings[c.login].Beginnings
	c.s = session.Arrive(rec, c, leased)
	c.context = sqltoken.NewContext(e.opts.Secret, rec.Database)
	c.generation = e.cache.Generation(rec.Database)
	e.clients[rec.Session] = c
	e.byPID[rec.Cancel.PID] = c
	switch {
	case rec.Live == nil && !a.back:
		e.metrics.Opened.Inc()
	case !a.back:
		e.metrics.Arrived.Inc()
	}
	c.log.Debug("session taken", obs.KeyUser, rec.User, obs.KeyDatabase, rec.Database, obs.KeyClient, rec.Client)
	if len(rec.Unread) > 0 {
		c.unread = e.keep(rec.Unread)
	}
	if rec.Live != nil && e.greetings[c.login] == nil && len(rec.Live.Greeting) > 0 {
		e.greeted(c.login, rec.Live.Greeting)
	}
	params := e.greetings[c.login]
	if params != nil {
		c.learn(params)
	}
	if rec.Live != nil {
		c.newest = rec.Live.Fence.Writer.Timeline
		if seen := rec.Live.Fence.Seen; seen != nil {
			c.newest = max(c.newest, seen.Server.Timeline)
		}
		c.learn(rec.Live.Shown)
		c.wait.before = time.Duration(rec.Live.WaitedMicros) * time.Microsecond
		if wasWorking(rec) {
			c.started = e.now // should it have to move on at once
		}
	}
	c.s.Start(params)
	if e.stopping && !a.back { // between arrival and acknowledgement
		e.dismiss(c)
	}
	c.perform()
	c.resume()
	if len(a.requests) > 0 || rec.Live != nil && rec.Live.Canceled {
		requests := *a
		a.requests = nil
		c.cancel(func() { requests.answer(true) })
	}
	if a.ends || rec.Live != nil && rec.Live.Leaving {
		c.end()
	}
	if rec.Live != nil {
		c.hear() // its client has most likely sent something on the way
	}
	e.runReady()
	return nil
}
