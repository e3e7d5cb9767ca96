package engine

import (
	"time"

	"github.com/pgpilot/pgpilot/services/router/internal/pool"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// capacity is the most connections of this router to one server, of all its pools
// together; 0: no limit.
func (e *Engine) capacity() int {
	if e.cfg.Servers.MaxConnections == 0 {
		return 0
	}
	return e.routers.of(e.cfg.Servers.MaxConnections)
}

// full reports whether the pools have as many connections to a server as they may have
// of this router.
func (e *Engine) full(backend int) bool {
	most := e.capacity()
	return most != 0 && e.servers[backend].total.Count() >= most
}

// excess reports whether they have more: there are more routers now, the configuration is
// another one, or a session has brought its connection along.
func (e *Engine) excess(backend int) bool {
	most := e.capacity()
	return most != 0 && e.servers[backend].total.Count() > most
}

// crowded reports whether a server has no place for one more, those taken into account
// that it has not closed yet.
func (e *Engine) crowded(backend int) bool {
	most, s := e.capacity(), e.servers[backend]
	return most != 0 && s.total.Count()+s.parting >= most
}

// room reports whether the server may have one more connection now. Where it may not, the
// one that has been idle for longest is closed, of whichever pool, unless a place is about
// to become free anyway.
func (p *site) room() bool {
	e, backend := p.e, p.key.Backend
	if !e.crowded(backend) {
		return true
	}
	return e.full(backend) && e.closeIdle(backend) && !e.crowded(backend)
}

// closeIdle closes the connection to a server that has been idle for longest, of whichever
// pool, and reports whether there was one.
func (e *Engine) closeIdle(backend int) bool {
	var from *site
	var since time.Time
	for k, q := range e.pools {
		if k.Backend != backend {
			continue
		}
		if at, ok := q.IdleSince(); ok && (from == nil || at.Before(since)) {
			from, since = q, at
		}
	}
	if from == nil {
		return false
	}
	s, _ := from.Oldest()
	from.forget(s)
	return true
}

// starving gives a pool of the server, other than p, that waits for its first
// connection while there is no room and none will be by itself, nil for none: it gets the
// place of the next one that p gives up. One that the server has just refused could not use it.
func (e *Engine) starving(p *site) *site {
	if !e.full(p.key.Backend) {
		return nil
	}
	for k, q := range e.pools {
		if k.Backend == p.key.Backend && q != p && q.Size() == 0 && !q.retry.Active() && q.Wants() {
			return q
		}
	}
	return nil
}

// missed reports whether a session has waited since then for what there would be if the pool
// had one connection less.
func (p *site) missed(since time.Time) bool {
	full := p.e.full(p.key.Backend)
	for k, q := range p.e.pools {
		if q != p && (k.Backend != p.key.Backend || !full || q.Size() >= q.Max || q.retry.Active()) {
			continue
		}
		if c, ok := q.Unserved(); ok && !c.wait.since.After(since) {
			return true
		}
	}
	return false
}

// refill makes the connections for which there may be room now that p has given
// something up.
func (e *Engine) refill(p *site) {
	p.fill()
	if e.capacity() == 0 {
		return
	}
	for k, q := range e.pools {
		if k.Backend == p.key.Backend && q != p && q.Wants() {
			q.fill()
		}
	}
}

// aged reports whether a connection is older than pool.max_lifetime, a tenth more or
// less: connections made at one time are not to be made again all at once.
func (e *Engine) aged(c *pool.Conn, pid uint32) bool {
	most := e.cfg.Pool.MaxLifetime.D()
	if most == 0 {
		return false
	}
	return e.now.Sub(c.Made) > most*9/10+most/5*time.Duration(pid%100)/100
}

// vacant has a place at the server used that has become free, by a pool that has none if
// there is one.
func (e *Engine) vacant(backend int) {
	for _, none := range [...]bool{true, false} {
		for k, q := range e.pools {
			if k.Backend == backend && (q.Size() == 0) == none && q.Wants() {
				q.fill()
			}
		}
	}
}

// lastUse is when a login had its last connection, and with which startup parameters.
type lastUse struct {
	at      time.Time
	startup string
}

// loginsInUse gives the logins that had a connection within pool.idle_timeout.
func (e *Engine) loginsInUse() map[upstream.Login]lastUse {
	used := map[upstream.Login]*site{}
	for k, p := range e.pools {
		l := upstream.Login{User: k.User, Database: k.Database}
		if last := used[l]; e.now.Sub(p.used) < e.cfg.Pool.IdleTimeout.D() && (last == nil || p.used.After(last.used)) {
			used[l] = p
		}
	}
	out := make(map[upstream.Login]lastUse, len(used))
	for l, p := range used {
		out[l] = lastUse{p.used, p.startup}
	}
	return out
}

// tendPools closes connections that are unused for pool.idle_timeout, too old or of
// ended runs, makes those that a pool is to have at least, and forgets pools nobody
// uses.
func (e *Engine) tendPools() {
	var inUse map[upstream.Login]lastUse
	least := 0
	if e.cfg.Pool.MinSize > 0 {
		inUse, least = e.loginsInUse(), e.routers.of(e.cfg.Pool.MinSize)
	}
	before := e.now.Add(-e.cfg.Pool.IdleTimeout.D())
	for k, p := range e.pools {
		run := e.tracker.Run(k.Backend)
		left, keep := p.Size(), 0
		if _, ok := inUse[upstream.Login{User: k.User, Database: k.Database}]; ok {
			keep = least
		}
		for _, s := range p.Expired(func(s *server) bool {
			gone := s.Run != run || e.aged(&s.Conn, s.pid) || s.IdleSince.Before(before) && left > keep
			if gone {
				left--
			}
			return gone
		}) {
			p.forget(s)
		}
		if p.Size() == 0 && p.Waiters() == 0 && !p.remembers() {
			e.forgetPool(p)
		}
	}
	for l, last := range inUse {
		l.Startup = last.startup
		e.warm(l, least, last)
	}
}

// warm makes what the login's pools are to have at least, in nobody's way. One that has
// just been forgotten, all its connections being too old, is as used as it was.
func (e *Engine) warm(l upstream.Login, least int, last lastUse) {
	t := e.tracker.Table()
	for i := range t.Backends {
		b := &t.Backends[i]
		used := i == t.Primary || b.Role == route.RoleReplica && b.Healthy
		if !used || b.Down || e.tracker.Leaving(i) {
			continue
		}
		p := e.siteOf(i, l)
		if p.used.IsZero() {
			p.used, p.startup = last.at, last.startup
		}
		for !p.retry.Active() && !p.avoids(l.Startup) && !e.crowded(i) && p.Warm(l.Startup, least) {
			p.connect(l.Startup)
		}
	}
}
