package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// Server connections travel with the sessions that are bound to them, out of one
// router's account and into another's.

// lease says what a connection is, in addition to what its session knows of it.
func (s *server) lease(l *handoff.Lease) {
	e := s.e
	site := e.servers[s.site.key.Backend]
	l.Backend, l.Address = site.name, site.address
	l.Run = e.incarnation(fence.Server{Backend: s.site.key.Backend, Run: s.Run})
	l.PID, l.Secret, l.Parameters, l.Reported = s.pid, s.secret, s.params, s.reported.Since()
	l.Given, l.Standby = s.given, s.standby
	if b := e.beginnings[upstream.Login{User: s.site.key.User, Database: s.site.key.Database, Startup: s.Startup}].read; b != nil {
		begins := handoff.Begins(*b)
		l.Begins = &begins
	}
	l.Generation, l.Soiled = e.cache.Generation(s.site.key.Database), s.soiled
	l.AgeMicros, l.Stored = e.now.Sub(s.Made).Microseconds(), s.stored
}

// idleLease says what an idle connection is that comes along with the client.
func (s *server) idleLease(c *client) handoff.Lease {
	l := handoff.Lease{Idle: true, Spare: s.stepper != c}
	s.lease(&l)
	s.statements.Pack(&l)
	if s.Settings != (settings.Hash{}) {
		l.Settings = s.Settings[:]
	}
	return l
}

// spareFor is how long ago the last statement of a session may be for it to take spare
// connections along. One that has been idle for longer can wait for a connection, should it
// want one, and would only take them from others.
const spareFor = time.Second

// hurries reports whether the session is likely to want a connection at once that this
// router has no use for.
func (c *client) hurries() bool {
	if !c.e.stopping {
		return false
	}
	switch c.s.Phase() {
	case session.Judging, session.Settling, session.Queued:
		return true
	}
	return c.working()
}

// working reports whether the session has had something to do just now.
func (c *client) working() bool { return c.e.now.Sub(c.started) < spareFor }

// wasWorking reports whether the session was working where it has come from: its client has sent
// something, or spare connections come along.
func wasWorking(rec *handoff.Record) bool {
	return len(rec.Unread) > 0 || slices.ContainsFunc(rec.Live.Leases, func(l handoff.Lease) bool { return l.Spare })
}

// idleFor takes, for a session that leaves, up to most idle connections out of the pools: one to
// each server if it hurries, so that it need not wait for a login where it goes to, and last
// the one on which it has moved a sequence.
func (e *Engine) idleFor(c *client, hurries bool, most int) (out []*server) {
	stepped := c.stepped
	if stepped != nil && (stepped.stepper != c || stepped.relayed || stepped.broken) {
		stepped = nil
	}
	if stepped != nil && most > 0 && stepped.site.Claim(stepped) {
		most--
	} else {
		stepped = nil
	}
	if hurries {
		for i := range e.servers {
			p := e.pools[poolKey{Backend: i, User: c.login.User, Database: c.login.Database}]
			if p == nil || len(out) == most {
				continue
			}
			s, ok := p.Take(c.login.Startup, c.s.Settings())
			switch {
			case !ok:
			case s.relayed || s.broken || s.stepper != nil || s.Run != e.tracker.Run(i):
				p.giveBack(s)
			default:
				out = append(out, s)
			}
		}
	}
	if stepped != nil {
		out = append(out, stepped)
	}
	return out
}

// incarnation gives a run of a server as other routers know it, the zero value for one
// that has ended.
func (e *Engine) incarnation(s fence.Server) lsn.Incarnation {
	if s.Run == 0 || s.Run != e.tracker.Run(s.Backend) {
		return lsn.Incarnation{}
	}
	return e.tracker.Incarnation(s.Backend)
}

// nameOfServer gives the name of a fence's server, empty for none.
func (e *Engine) nameOfServer(s fence.Server) string {
	if s == (fence.Server{}) || s.Backend >= len(e.servers) {
		return ""
	}
	return e.servers[s.Backend].name
}

// serverOf gives the server of a fence that has travelled, zero if it is not known here.
func (e *Engine) serverOf(name string, run lsn.Incarnation) fence.Server {
	i := e.tracker.Index(name)
	if name == "" || i < 0 || i >= len(e.servers) {
		return fence.Server{}
	}
	n := e.tracker.Recognize(i, run)
	if n == 0 {
		return fence.Server{}
	}
	return fence.Server{Backend: i, Run: n}
}

// backendOf gives the index of a lease's server, -1 if it is not one of this router's.
func (e *Engine) backendOf(l *handoff.Lease) int {
	i := e.tracker.Index(l.Backend)
	if i < 0 || i >= len(e.servers) || e.servers[i].address != l.Address {
		return -1
	}
	return i
}

// admits says why a session that is offered with n descriptors cannot be taken.
func (e *Engine) admits(rec *handoff.Record, n int) error {
	if e.stopping {
		return errStopping
	}
	want := 1
	if rec.Live != nil {
		want += len(rec.Live.Leases)
	}
	if n != want {
		return fmt.Errorf("it came with %d descriptors instead of %d", n, want)
	}
	if _, here := e.clients[rec.Session]; here {
		return fmt.Errorf("session %s is here already", rec.Session)
	}
	if _, here := e.departing[rec.Session]; here {
		return fmt.Errorf("session %s is about to leave here", rec.Session)
	}
	if rec.Live == nil {
		return nil
	}
	for i := range rec.Live.Leases {
		if l := &rec.Live.Leases[i]; !l.Spare && e.backendOf(l) < 0 {
			return fmt.Errorf("it holds a connection to %s (%s), which is not a server of this router's configuration", l.Backend, l.Address)
		}
	}
	return nil
}

// takeLeases takes the connections of a session into the account, and says what its
// record means here. After an error the descriptors are still the caller's.
func (e *Engine) takeLeases(c *client, rec *handoff.Record, fds []int) (a session.Arrival, err error) {
	l := rec.Live
	if l == nil {
		return a, nil
	}
	a.Writer = e.serverOf(l.Fence.Backend, l.Fence.Writer)
	if seen := l.Fence.Seen; seen != nil {
		a.Home = e.serverOf(seen.Backend, seen.Server)
	}
	var idle []*server
	var spare []bool
	for i := range l.Leases {
		s, err := e.takeLease(c, &l.Leases[i], fds[i])
		if err != nil && l.Leases[i].Spare {
			poll.Hangup(fds[i]) // it can do without
			fds[i] = -1
			continue
		}
		if err != nil {
			c.letLoose()
			for _, s := range idle {
				s.letLoose()
			}
			return a, err
		}
		if l.Leases[i].Idle {
			idle, spare = append(idle, s), append(spare, l.Leases[i].Spare)
			continue
		}
		a.Lease = &session.Grant{
			Slot: s.slot, Backend: s.site.key.Backend, Server: fence.Server{Backend: s.site.key.Backend, Run: s.Run},
			Name: l.Leases[i].Backend, Parameters: s.params, Statements: &s.statements, Settings: &s.Settings, Reported: &s.reported,
		}
	}
	for i, s := range idle {
		if !spare[i] {
			s.steppedBy(c)
		}
		s.site.giveBack(s)
	}
	return a, nil
}

// unwelcome says why a spare connection is of no use here: it is to a standby that is taken for the
// primary here, the server has as many as it may have, or it has ended this one on the way, when
// nobody watched it.
func (e *Engine) unwelcome(l *handoff.Lease, backend, fd int) error {
	if l.Standby && backend == e.tracker.Table().Primary {
		return fmt.Errorf("take spare connection over: %s: %w", e.servers[backend].name, errDemoted)
	}
	if e.crowded(backend) {
		return fmt.Errorf("take spare connection over: %s has no room for it", e.servers[backend].name)
	}
	if !poll.Silent(fd) {
		return fmt.Errorf("take spare connection over: %s has ended it", e.servers[backend].name)
	}
	return nil
}

// takeLease takes one.
func (e *Engine) takeLease(c *client, l *handoff.Lease, fd int) (*server, error) {
	i := e.backendOf(l)
	if i < 0 { // it was there when the session was admitted
		return nil, fmt.Errorf("take connection over: %s is no server of this router any more", l.Backend)
	}
	if l.Spare {
		if err := e.unwelcome(l, i, fd); err != nil {
			return nil, err
		}
	}
	p := e.siteOf(i, c.login)
	s := &server{site: p, pid: l.PID, secret: l.Secret, params: l.Parameters, stored: l.Stored, served: true}
	s.Startup, s.Made = c.login.Startup, e.now.Add(-time.Duration(l.AgeMicros)*time.Microsecond)
	s.Run = e.tracker.Recognize(i, l.Run)
	s.reported.Arrived(l.Parameters, l.Reported)
	s.statements.Unpack(l)
	s.Settings = settings.Hash{}
	copy(s.Settings[:], l.Settings)
	s.given, s.standby = l.Given, l.Standby
	s.soiled = l.Soiled || l.Generation < e.cache.Generation(c.login.Database)
	// What is held of a standby goes on; nobody else gets it as a connection to the primary.
	s.outdated = e.bygone(s) || e.outdated(s, c.login) || s.standby && i == e.tracker.Table().Primary
	if err := s.open(e, fd, s, poll.In); err != nil {
		return nil, err
	}
	p.Pool.Adopt()
	p.servers[s] = struct{}{}
	if i == e.tracker.Table().Primary && !l.Standby && len(l.Given) == 0 {
		e.meets(c.login, l)
	}
	if l.Idle {
		return s, nil
	}
	s.owner, s.slot = c, session.PrimarySlot
	if l.Replica {
		s.slot = session.ReplicaSlot
	}
	c.conns[s.slot] = s
	e.tracker.Table().Backends[i].Held++
	return s, nil
}

// meets learns of a login what a connection to the primary tells that was made elsewhere,
// where none has been made here.
func (e *Engine) meets(login upstream.Login, l *handoff.Lease) {
	if e.greetings[login] == nil && len(l.Parameters) > 0 {
		e.greeted(login, l.Parameters)
	}
	if b := l.Begins; b != nil && e.beginnings[login].read == nil {
		read := upstream.Beginnings(*b)
		e.begins(login, &read)
	}
}

// letLoose takes the connection out of the account without closing it.
func (s *server) letLoose() {
	if c := s.owner; c != nil {
		c.conns[s.slot] = nil
		s.owner = nil
		s.e.tracker.Table().Backends[s.site.key.Backend].Held--
	}
	s.site.Drop()
	delete(s.site.servers, s)
	s.letGo()
}

// letLoose has nothing of the client watched any more, and closes nothing.
func (c *client) letLoose() {
	for _, s := range c.conns {
		if s != nil {
			s.letLoose()
		}
	}
	c.letGo()
}
