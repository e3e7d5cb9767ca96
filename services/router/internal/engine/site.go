package engine

import (
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/pool"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

type poolKey = pool.Key

// site is a pool with the means to fill it.
type site struct {
	e   *Engine
	key poolKey
	pool.Pool[*server, *client]
	// servers are all connections of the pool, whoever has them.
	servers map[*server]struct{}
	retry   poll.Timer
	backoff time.Duration
	// used is when a session last had a connection of it, startup what that was made
	// with.
	used    time.Time
	startup string
	// unlike are the startup parameters with which a connection would answer otherwise than
	// the primary.
	unlike map[string]avoidance
	// shown is what the last connection to a replica has shown of what is stored for the
	// role and the database. One that was begun before since may have begun with what was
	// stored before that.
	shown string
	since time.Time
	// refusal is why the last connection could not be made, empty after one that was; said
	// is what the server said, nil if it said nothing.
	refusal string
	said    *pgconn.PgError
}

// siteOf gives the pool for a login on a backend, making it on first use.
func (e *Engine) siteOf(backend int, l upstream.Login) *site {
	k := poolKey{Backend: backend, User: l.User, Database: l.Database}
	to := e.servers[backend]
	if to.latest != nil && to.latest.key == k {
		return to.latest
	}
	p := e.pools[k]
	if p == nil {
		p = &site{e: e, key: k, servers: map[*server]struct{}{}}
		p.Max, p.Total = e.sizeOf(backend), &to.total
		e.pools[k] = p
	}
	to.latest = p
	return p
}

// forgetPool gives up a pool that nobody uses.
func (e *Engine) forgetPool(p *site) {
	e.timers.Stop(&p.retry)
	delete(e.pools, p.key)
	e.servers[p.key.Backend].latest = nil
}

// login gives a login whose connections are in the pool.
func (p *site) login(startup string) upstream.Login {
	return upstream.Login{User: p.key.User, Database: p.key.Database, Startup: startup}
}

// all lists the pool's connections.
func (p *site) all() []*server {
	out := make([]*server, 0, len(p.servers))
	for s := range p.servers {
		out = append(out, s)
	}
	return out
}

// fill makes the connections that are waited for and for which there is room.
func (p *site) fill() {
	if p.retry.Active() {
		return // the server has just refused
	}
	for p.Wants() {
		if p.Size() >= p.Max {
			s, ok := p.Oldest()
			if !ok {
				return
			}
			p.forget(s)
		}
		if !p.room() {
			return
		}
		startup, ok := p.Connect()
		if !ok {
			return
		}
		p.connect(startup)
	}
}

// connect makes one connection on a goroutine of its own.
func (p *site) connect(startup string) {
	e := p.e
	conn := e.servers[p.key.Backend].connector
	who := upstream.Credentials{User: p.key.User, Password: e.users[p.key.User]}
	params, given := upstream.DecodeStartup(startup), []handoff.Parameter(nil)
	if p.key.Backend != e.tracker.Table().Primary {
		given = e.shaping(p.login(startup))
	}
	began := e.now
	e.work.Go(func() {
		m, err := connectAlike(params, given, func(params []handoff.Parameter) (*upstream.Made, error) {
			return conn.Connect(e.workCtx, who, p.key.Database, params)
		})
		posted := e.Post(func() {
			if err == nil && m.Standby && p.key.Backend == e.tracker.Table().Primary {
				poll.Hangup(m.FD)
				err = errDemoted
			}
			var other *unlike
			switch {
			case errors.As(err, &other):
				p.avoid(startup, other)
			case err != nil:
				p.connectFailed(startup, err)
			case p.deviates(m.Stored):
				poll.Hangup(m.FD)
				p.shun(startup)
			default:
				p.connected(startup, m, given, began)
			}
			e.runReady()
		})
		if !posted && err == nil {
			poll.Hangup(m.FD)
		}
	})
}

// errDemoted: the server that is taken for the primary has come back as a standby. It
// may show anything that is old; who the primary is now, the news will tell.
var errDemoted = errors.New("it is taken for the primary, but is a standby now")

// connected takes a finished connection into the pool.
func (p *site) connected(startup string, m *upstream.Made, given []handoff.Parameter, began time.Time) {
	e := p.e
	p.Connected(startup)
	e.connectedTo(p.key.Backend)
	s := &server{site: p, pid: m.PID, secret: m.Secret, params: m.Parameters, given: given, stored: m.Stored, standby: m.Standby, relayed: m.Relayed}
	s.Startup, s.Made = startup, began
	s.reported.Began(m.Parameters)
	s.Run = e.observe(p.key.Backend, m)
	if err := s.open(e, m.FD, s, poll.In); err != nil {
		e.log.Error("cannot use server connection", obs.KeyError, err)
		poll.Hangup(m.FD)
		p.Drop()
		p.pause()
		return
	}
	p.servers[s] = struct{}{}
	if s.Run != e.tracker.Run(p.key.Backend) { // the server has restarted meanwhile
		p.pause()
		p.discard(s)
		return
	}
	p.backoff, p.refusal, p.said = 0, "", nil
	login := p.login(startup)
	if e.tracker.Table().Primary == p.key.Backend {
		if len(given) == 0 {
			e.greeted(login, m.Parameters)
			e.retire(login)
		}
		e.begins(login, m.Beginnings)
		e.isStored(p.account(), m.Stored, began)
	}
	s.outdated = e.outdated(s, login) || e.bygone(s) // it was told meanwhile
	p.giveBack(s)
}

// A server that refuses is tried again after retryFrom, doubling up to retryUpTo,
// for as long as somebody waits.
const (
	retryFrom = 50 * time.Millisecond
	retryUpTo = time.Second
)

// connectFailed ends or prolongs the waits for a connection that could not be
// made.
func (p *site) connectFailed(startup string, err error) {
	e := p.e
	var pg *pgconn.PgError
	denied := errors.As(err, &pg) && !temporary(pg.Code)
	full := pg != nil && pg.Code == "53300"
	level := slog.LevelWarn
	if p.refusal == err.Error() {
		level = slog.LevelDebug // said before
	}
	p.refusal, p.said = err.Error(), nil
	if pg != nil && !denied { // what concerns one session's parameters is not the others'
		p.said = pg
	}
	e.log.Log(e.workCtx, level, "cannot connect to server", obs.KeyBackend, e.servers[p.key.Backend].name, obs.KeyUser, p.key.User, obs.KeyDatabase, p.key.Database, obs.KeyError, err)
	isPrimary := p.key.Backend == e.tracker.Table().Primary
	if !denied && !full {
		e.failed(p.key.Backend, refused)
	}
	giveUp := denied || !isPrimary && !full
	for _, c := range p.ConnectFailed(startup, giveUp) {
		if denied && isPrimary {
			c.wait.in = nil
			c.uncount()
			e.refuse(c, &session.Problem{Code: pg.Code, Message: pg.Message, Detail: pg.Detail, Hint: pg.Hint})
			continue
		}
		p.sendElsewhere(c)
	}
	p.pause()
	e.refill(p) // it has left room for others
}

// sendElsewhere has a session that waits here no more ask for another server.
func (p *site) sendElsewhere(c *client) {
	c.wait.in = nil
	c.uncount()
	c.wait.request.Tried = c.wait.request.Tried.With(p.key.Backend)
	p.e.ready = append(p.e.ready, grant{c: c})
}

// pause leaves the server alone for a while, longer each time.
func (p *site) pause() {
	p.backoff = min(max(2*p.backoff, retryFrom), retryUpTo)
	p.e.timers.Set(&p.retry, p.e.now.Add(p.backoff), p.fill)
}

// refuses reports that the server has just refused this login and there is no connection
// from before, or that one with these startup parameters is of no use.
func (p *site) refuses(startup string) bool {
	return p.retry.Active() && p.Size() == 0 || p.avoids(startup)
}

// temporary reports SQLSTATEs of a refused login that will pass by themselves:
// the server starts, stops or recovers (class 57), or is full (class 53).
func temporary(code string) bool {
	return len(code) == 5 && (code[:2] == "57" || code[:2] == "53")
}

// giveBack takes a clean connection that nobody has, and lends it to whoever
// waits for its like.
func (p *site) giveBack(s *server) {
	e := p.e
	s.takeStock()
	if s.broken || s.outdated || s.Run != e.tracker.Run(p.key.Backend) || p.Size() > p.Max || e.excess(p.key.Backend) || e.aged(&s.Conn, s.pid) {
		p.discard(s)
		return
	}
	s.checkPooled()
	if s.stepper != nil && p.Waiters() > 0 {
		s.reset() // it comes back
		return
	}
	if q := e.starving(p); q != nil && s.served {
		p.Drop()
		p.forget(s)
		q.fill()
		e.refill(p)
		return
	}
	if p.InTheWay(s, e.full(p.key.Backend)) {
		p.discard(s)
		return
	}
	if c, given := p.Put(s, e.now); given {
		e.ready = append(e.ready, grant{c: c, s: s})
		return
	}
	e.refill(p) // its place may be wanted for one of another kind
}

// discard closes a connection that counts as lent or as idle.
func (p *site) discard(s *server) {
	if s.closed {
		return
	}
	if !p.DropIdle(s) {
		p.Drop()
	}
	p.forget(s)
	p.e.refill(p)
}

// forget closes a connection that is out of the account already.
func (p *site) forget(s *server) {
	delete(p.servers, s)
	if p.e.capacity() == 0 || s.broken || s.cut {
		s.hangup()
		return
	}
	s.part()
}

// shareOfRouters divides pool.max_size between the routers of this host.
type shareOfRouters struct{ rank, count int }

// of gives this router's part of n, at least one.
func (r shareOfRouters) of(n int) int {
	share := n / r.count
	if r.rank < n%r.count {
		share++
	}
	return max(1, share)
}

// Share tells how many routers run on this host and which of them this one is,
// counted from zero; from any goroutine.
func (e *Engine) Share(rank, count int) {
	e.Post(func() {
		e.routers = shareOfRouters{rank, max(1, count)}
		e.resize()
		e.runReady()
	})
}

// sizeOf is the most connections of a pool to a server.
func (e *Engine) sizeOf(backend int) int {
	switch {
	case e.tracker.Leaving(backend):
		return 0
	case backend == e.tracker.Table().Primary:
		return e.routers.of(e.cfg.Pool.PrimarySize())
	}
	return e.routers.of(e.cfg.Pool.ReplicaSize())
}

// resize applies the pools' sizes and the servers' limits. A pool that has become too
// large, or one of those that are together, shrinks as its idle connections are closed
// and its lent ones come back.
func (e *Engine) resize() {
	for _, p := range e.pools {
		p.Max = e.sizeOf(p.key.Backend)
		for p.Size() > p.Max {
			s, ok := p.Oldest()
			if !ok {
				break
			}
			p.forget(s)
		}
		p.fill()
	}
	for i := range e.servers {
		for e.excess(i) && e.closeIdle(i) {
		}
	}
}
