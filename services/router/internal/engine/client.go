package engine

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// client is one session with its socket and the connections lent to it.
type client struct {
	pipe
	s     *session.Session
	log   *slog.Logger
	login upstream.Login
	// settings are those of the login's sessions, beginnings what its connections begin with.
	settings   *session.Settings
	beginnings session.Beginnings
	conns      [2]*server

	// context and major are what statements of this session are keyed with.
	context sqltoken.Context
	// generation is that of the verdicts of the session's database.
	// aged says that what it is about to run may have been judged before that.
	generation uint64
	aged       bool
	major      int
	// backslashes says that the server reads them as escapes in ordinary strings
	// (standard_conforming_strings is off), foreign that the client's encoding is not
	// UTF8. Either way the router's lexer and the server may disagree about where a
	// string ends; in a foreign encoding only if a byte is not ASCII.
	backslashes, foreign bool
	// folding says that the server may fold letters of names that are not ASCII.
	folding bool

	wait  waiting
	cross crossing
	// newest is the latest timeline that the session is known to have come from.
	newest   lsn.Timeline
	reads    bool        // it has read, and not just anything, since its fence was last settled
	awaiting bool        // for its fence
	place    fence.Place // among those who wait for a probe
	admits   fence.Place // the same, for a token
	fenceDue poll.Timer
	// admission is the token that the session waits for, nil for none.
	admission *admission
	judging   uint64 // numbers the questions; an answer to an earlier one is late

	// started is when the statement that runs was granted its connection; on is the
	// backend it is counted on, -1 for none.
	started time.Time
	on      int
	target  route.Role

	// early are the cancel requests for a statement that has not left yet: each is called
	// when it is over.
	early []func()
	// insists is when the statement is canceled again that such a request was for.
	insists poll.Timer

	// stepped is the connection on which the session has last moved a sequence.
	stepped *server

	// leaves says that the session is to go to another router; stays, that it cannot; ends,
	// that it is to end when it is idle, wherever it is.
	leaves, stays, ends bool
	// queued says that it is among those that could go now; again is when it is offered
	// again that nobody took.
	queued bool
	again  poll.Timer

	closing bool // everything is said; close when it has left
	// ended says that the client has closed its side, spent that all has been read that it
	// has sent before that, failed that its connection is known to be of no use any more.
	// knocking is when it is found out again whether it is still there.
	ended, spent, failed bool
	endedAt              time.Time
	knocks               int
	knocking             poll.Timer

	lastWord poll.Timer
	// idleDue ends the session when it is idle for too long in a transaction that no
	// server knows of.
	idleDue poll.Timer

	// performing and feeding say that the session is in the middle of a step, whose
	// caller goes on with whatever becomes possible on the way.
	performing, feeding bool
}

// waiting is a session's wait for a connection.
type waiting struct {
	request route.Request
	since   time.Time
	// chance says what has become of the chance that a replica catches up in time.
	chance chance
	fenced bool // since counts from the wait for the fence
	// before is how long the first statement has waited in another router.
	before time.Duration
	in     *site // the pool whose queue it is in
	// stranded says that it is in the engine's list of those.
	stranded bool
	due      poll.Timer
}

var errStopping = errors.New("the router is stopping")

// Sessions lists the sessions here, for a listener that has just connected.
func (e *Engine) Sessions() []string {
	answer := make(chan []string, 1)
	if !e.Post(func() {
		ids := make([]string, 0, len(e.clients)+len(e.departing))
		for id := range e.clients {
			ids = append(ids, id)
		}
		for id := range e.departing {
			ids = append(ids, id)
		}
		answer <- ids
	}) {
		return nil
	}
	return <-answer
}

// learn takes what the server's parameters say about reading statements.
func (c *client) learn(params []handoff.Parameter) {
	for _, p := range params {
		switch p.Name {
		case "server_version":
			c.major = major(p.Value)
		case "standard_conforming_strings":
			c.backslashes = c.backslashes || p.Value != "on"
		case "client_encoding":
			c.foreign = c.foreign || p.Value != "UTF8"
		case "server_encoding":
			c.folding = c.folding || p.Value != "UTF8"
		}
	}
}

// event handles readiness of the client's socket.
func (c *client) event(ev poll.Event) {
	if unsent := len(c.out); ev.Writable() && unsent > 0 {
		if c.flush() {
			if c.closing {
				c.destroy()
				return
			}
			for _, s := range c.conns {
				if s != nil {
					s.reading(true)
				}
			}
		} else if c.closing && len(c.out) < unsent && !c.e.overdue {
			c.linger()
		}
	}
	switch {
	case c.closing:
		if ev.Broken() {
			c.destroy()
		} else {
			// Whatever the client still says is not heard.
			c.watch(c.interest &^ (poll.In | poll.PeerClosed))
		}
		return
	case ev.Readable() && c.listens() && !c.spent:
		c.receive()
	case ev.Broken():
		c.hasFailed()
	case ev.Gone():
		c.hungUp()
	case ev.Readable():
		c.reading(false)
	}
	c.resume()
}

// destroy ends the session's life here.
func (c *client) destroy() {
	if c.closed {
		return
	}
	e := c.e
	for slot := range c.conns {
		e.release(c, session.Slot(slot), session.Broken)
	}
	e.forget(c)
	c.hangup()
	c.endEarly()
	e.metrics.Closed.Inc()
	e.opts.Ended(c.s.Record().Session)
	c.log.Debug("session ended")
	e.endIfEmpty()
}

// lastWordTimeout is how long a closed session's last bytes may wait for its
// client to read any of them.
const lastWordTimeout = 5 * time.Second

// sayGoodbye closes the client's connection once everything has left.
func (c *client) sayGoodbye() {
	if c.broken || len(c.out) == 0 {
		c.destroy()
		return
	}
	c.closing = true
	c.linger()
}

func (c *client) linger() {
	c.e.timers.Set(&c.lastWord, c.e.now.Add(lastWordTimeout), c.destroy)
}

// greeted remembers what the primary told of itself, for the logins to come. Where that is not
// what it told before, as after ALTER ROLE … SET standard_conforming_strings, it concerns the
// open sessions of the login, too: their statements may be executed on this connection.
func (e *Engine) greeted(l upstream.Login, params []handoff.Parameter) {
	if before := e.greetings[l]; before != nil && !slices.Equal(before, params) {
		for _, c := range e.clients {
			if c.login == l {
				c.learn(params)
			}
		}
	}
	if len(e.greetings) >= maxGreetings {
		clear(e.greetings)
	}
	e.greetings[l] = params
}

// maxGreetings bounds how many logins' parameters are remembered.
const maxGreetings = 10000
