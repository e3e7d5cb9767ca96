package engine

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/pool"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// server is one pooled server connection.
type server struct {
	pipe
	pool.Conn
	site   *site
	pid    uint32
	secret []byte
	params []handoff.Parameter
	// reported is what the server has reported since, given what was added to the login's
	// own startup parameters when it was made.
	reported session.Reported
	given    []handoff.Parameter
	// standby says that the server was one when it was made.
	standby bool
	// stored identifies what was stored for the role and the database when it was made,
	// empty if that is not known.
	stored string
	// outdated says that the primary answers otherwise by now, or that sessions begin with
	// other settings: it is closed when it comes back.
	outdated bool
	// relayed says that its TLS state is this process's: it cannot go to another.
	relayed bool
	// statements is what it holds of prepared statements.
	statements session.Statements

	// owner has it, in the slot; nil: the pool has it.
	owner *client
	slot  session.Slot
	// served says that a session has had it.
	served bool
	// excess says that the server has sent more than was asked for: what the next
	// answer would be is uncertain.
	excess bool
	// cut says that something may still run on it when it is closed: the server is not
	// waited for.
	cut bool
	// resetting says that DISCARD runs on it, before the pool gets it.
	resetting bool
	// discarded says that DISCARD has run; its ReadyForQuery follows. resets is how many of
	// these are still to come. due ends the wait for
	// that.
	discarded bool
	resets    int
	due       poll.Timer
	// cancels counts cancel requests under way: until the last one's connection is
	// closed, a signal could hit the next statement. parked says that the connection
	// has come back meanwhile.
	cancels int
	parked  bool
	// said counts what has been read of it for a session.
	said uint64
	// over wait for the end of the cancel requests under way.
	over []func()
	// asked counts the further requests for a connection that is closed.
	asked int
	again poll.Timer
	// used says that it must be reset before another session gets it, opened, that a
	// transaction has to be ended.
	used, opened bool
	// soiled says that what has run on it was judged by what holds no more: it may have left
	// something, and is reset when the session gives it back.
	soiled bool
	// stepper has moved a sequence there: what lastval and currval say is nobody else's
	// business. Nil: nobody has since the last reset.
	stepper *client
}

// steppedBy notes who has moved a sequence on the connection.
func (s *server) steppedBy(c *client) {
	s.stepper, s.Marked = c, c != nil
	if c != nil {
		c.stepped = s
	}
}

// comeBack brings a connection that nobody has to the pool.
func (s *server) comeBack() {
	s.parked = false
	s.used = s.used || s.soiled && s.stepper == nil && !s.opened // see soil
	if s.used || s.opened {
		s.reset()
		return
	}
	s.site.giveBack(s)
}

// canceled notes that a cancel request is over.
func (s *server) canceled() {
	s.cancels--
	if s.cancels == 0 {
		for _, over := range s.over {
			over()
		}
		s.over = nil
	}
	switch {
	case s.cancels > 0:
	case s.closed:
		s.cancelAgain()
	case s.parked:
		s.comeBack()
	case s.owner != nil:
		s.owner.resume()
	}
}

// Pooled implements pool.Member.
func (s *server) Pooled() *pool.Conn { return &s.Conn }

// event handles readiness of the server's socket.
func (s *server) event(ev poll.Event) {
	if ev.Writable() && len(s.out) > 0 && s.flush() && s.owner != nil {
		s.owner.resume()
	}
	switch c := s.owner; {
	case s.closed:
	case c != nil && len(c.out) > 0 && !ev.Broken():
		s.reading(false) // until the client has taken what it was sent
	case !ev.Readable():
		s.broken = s.broken || ev.Gone()
	case c != nil:
		s.receive(c)
	case s.resetting:
		s.receiveReset()
	default:
		// An idle connection has nothing to say but that it is ending, or that its
		// settings have changed under it.
		s.broken = true
	}
	if s.broken && !s.closed {
		s.e.lostConnection(s.site.key.Backend)
		s.lost()
	}
}

// lost ends a connection that has broken.
func (s *server) lost() {
	if c := s.owner; c != nil {
		c.resume()
		return
	}
	s.site.discard(s)
}

// receive reads once, for the session that has the connection.
func (s *server) receive(c *client) {
	e := s.e
	n, st := s.recv()
	switch st {
	case poll.Again:
		return
	case poll.Closed:
		s.broken = true
		return
	case poll.OK:
	}
	s.said++
	e.heardFrom(s.site.key.Backend)
	b := s.received(e.buf[:n])
	// Set aside: b may lie in it, and it is not unread any more unless the session
	// says so.
	gathered := s.unread
	s.unread = nil
	used := c.s.FromServer(s.slot, b)
	s.excess = used < len(b)
	c.perform()
	switch {
	case s.owner == c && !s.closed:
		s.unread, s.excess = gathered, false
		s.leave(b[used:])
	case gathered != nil:
		e.drop(gathered)
	}
	c.resume()
}

// discardAll forgets everything a client may have left in a server session
// (PostgreSQL documentation, "DISCARD"). Releases before 15.9, 16.5 and 17.1 then have no role,
// also where the login begins with one (ALTER ROLE … SET role). DISCARD ALL cannot be in one
// string with anything else.
var discardAll = wire.AppendQuery(wire.AppendQuery(nil, "DISCARD ALL"), "RESET ROLE")

// discardSequences forgets what lastval and currval say, and keeps what is prepared.
var discardSequences = wire.AppendQuery(nil, "DISCARD SEQUENCES")

// rollback ends a transaction.
var rollback = wire.AppendQuery(nil, "ROLLBACK")

// resetTimeout is how long a server may take to clean a connection. Dropping thousands of
// temporary tables takes seconds; a server process that does nothing at all must not keep its
// place in the pool.
const resetTimeout = 30 * time.Second

// reset cleans the connection before the pool gets it.
func (s *server) reset() {
	all, ends := s.used || s.soiled, s.opened
	s.used, s.opened, s.resetting, s.discarded = false, false, true, false
	s.soiled = s.soiled && ends
	s.steppedBy(nil)
	s.resets = 1
	switch {
	case ends:
		s.statements.Queried()
		s.send(rollback)
	case all:
		s.statements.Clear()
		s.Settings = settings.Hash{}
		s.resets = 2
		s.send(discardAll)
	default:
		s.statements.Queried()
		s.send(discardSequences)
	}
	if s.broken {
		s.site.discard(s)
		return
	}
	s.e.timers.Set(&s.due, s.e.now.Add(resetTimeout), func() {
		if s.resetting && !s.closed {
			s.cut = true
			s.site.discard(s)
		}
	})
}

// receiveReset reads the answer to what cleans it.
func (s *server) receiveReset() {
	n, st := s.recv()
	switch st {
	case poll.Again:
		return
	case poll.Closed:
		s.broken = true
		return
	case poll.OK:
	}
	b := s.received(s.e.buf[:n])
	for {
		typ, total, err := wire.Header(b)
		switch {
		case err != nil || typ == wire.ErrorResponse:
			s.broken = true
			return
		case total == 0 || len(b) < total:
			s.leave(b)
			return
		case typ == wire.CommandComplete:
			s.discarded = true
		case typ == wire.ParameterStatus:
			s.reported.Note(b[wire.HeaderSize:total])
		case typ == wire.ReadyForQuery:
			// Anything but that it has been done, and nothing behind it, is the answer to
			// something else.
			s.resets--
			s.broken = !s.discarded || total <= wire.HeaderSize || b[wire.HeaderSize] != wire.Idle || s.resets == 0 && len(b) > total
			s.discarded = false
			if s.resets > 0 && !s.broken {
				break
			}
			s.leave(nil)
			s.resetting = false
			s.e.timers.Stop(&s.due)
			if !s.broken {
				s.comeBack()
			}
			return
		}
		b = b[total:]
	}
}
