package engine

import (
	"context"
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// A connection keeps the settings of its role and its database that were stored when it was
// made. When others are stored (ALTER ROLE … SET, ALTER DATABASE … SET), the connections made
// before are lent to nobody any more: sessions would get old and new values by turns.

// stored is what the primary has stored for an account.
type stored struct {
	digest string
	// since is when it was first known, zero if nothing else was known before. A connection
	// that was begun earlier may show this digest and have begun with what was stored
	// before: what it shows is read after its login.
	since time.Time
}

// account is whose connections are in the pool.
func (p *site) account() upstream.Account {
	return upstream.Account{User: p.key.User, Database: p.key.Database}
}

// isStored takes what the primary has shown, when asked at the given time or later.
func (e *Engine) isStored(a upstream.Account, digest string, asked time.Time) {
	was, known := e.stored[a]
	if digest == "" || known && (digest == was.digest || asked.Before(was.since)) {
		return
	}
	now := stored{digest: digest}
	if known {
		now.since = e.now
		e.log.Info("the settings of a role or a database have changed: connections made before are replaced", obs.KeyUser, a.User, obs.KeyDatabase, a.Database)
	}
	if len(e.stored) >= maxGreetings {
		clear(e.stored)
	}
	e.stored[a] = now
	for i := range e.servers {
		if p := e.pools[poolKey{Backend: i, User: a.User, Database: a.Database}]; p != nil {
			p.replace()
		}
	}
}

// replace closes the connections with settings of former times, those that are lent when they
// come back.
func (p *site) replace() {
	for _, s := range p.all() {
		if s.outdated || !p.e.bygone(s) {
			continue
		}
		if s.outdated = true; p.DropIdle(s) {
			p.forget(s)
			p.e.refill(p)
		}
	}
}

// bygone reports whether the connection may have begun with other settings than those that
// are stored now.
func (e *Engine) bygone(s *server) bool {
	now, known := e.stored[s.site.account()]
	return known && (s.stored != "" && s.stored != now.digest || s.Made.Before(now.since) || s.Made.Before(s.site.since))
}

// deviates reports whether a new connection, which shows what is stored, is one to a replica
// that has not replayed what the primary has shown, or is ahead of that; then the primary is
// asked. The first one that shows the same after a change is bygone: the replica may have
// replayed it between the login and the question.
func (p *site) deviates(digest string) bool {
	e := p.e
	now, known := e.stored[p.account()]
	if !known || digest == "" || p.key.Backend == e.tracker.Table().Primary {
		return false
	}
	news := digest != p.shown
	p.shown = digest
	if digest == now.digest {
		if news && !now.since.IsZero() {
			p.since = e.now
		}
		return false
	}
	if news {
		e.review()
	}
	return true
}

// shunFor is how long a login's reads stay off a server that has not replayed its settings.
const shunFor = time.Second

// shun has the sessions of a login read elsewhere for a moment.
func (p *site) shun(startup string) {
	e := p.e
	if p.unlike == nil || len(p.unlike) >= maxGreetings {
		p.unlike = map[string]avoidance{}
	}
	p.unlike[startup] = avoidance{until: e.now.Add(shunFor)}
	e.connectedTo(p.key.Backend) // the server is well
	for _, c := range p.ConnectFailed(startup, true) {
		p.sendElsewhere(c)
	}
	e.refill(p)
}

// hearStored takes what the news of a server tell of what is stored. That others have stored
// something, on the server itself or through another router, shows nowhere else.
func (e *Engine) hearStored(backend int, settings string) {
	if settings == "" || settings == e.heard || backend != e.tracker.Table().Primary {
		return
	}
	if e.heard = settings; len(e.pools) > 0 {
		e.review()
	}
}

// review asks the primary what is stored for the accounts that have connections here.
func (e *Engine) review() {
	primary := e.tracker.Table().Primary
	if primary == route.None {
		e.heard = "" // the news of the next one have it asked
	}
	if e.reviewing || primary == route.None || e.stopping {
		e.again = e.reviewing
		return
	}
	var accounts []upstream.Account
	for _, p := range e.pools {
		if a := p.account(); !slices.Contains(accounts, a) {
			accounts = append(accounts, a)
		}
	}
	e.reviewing, e.again = true, false
	asked, conn := e.now, e.servers[primary].connector
	e.work.Go(func() {
		ctx, stop := context.WithTimeout(e.workCtx, connectTimeout)
		defer stop()
		digests, err := conn.Stored(ctx, accounts)
		e.Post(func() {
			e.reviewed(accounts, digests, asked, err)
			e.runReady()
		})
	})
}

// reviewed takes the answer. Without one, nothing is known any more, so that no read is kept
// off a replica for what the primary had stored at some time.
func (e *Engine) reviewed(accounts []upstream.Account, digests []string, asked time.Time, err error) {
	e.reviewing = false
	if err != nil {
		e.log.Warn("cannot see whether settings of roles and databases have changed; connections with old values may be in use until new ones are made", obs.KeyError, err)
		clear(e.stored)
		e.heard = "" // the next news have it asked again
		return
	}
	for i, digest := range digests {
		e.isStored(accounts[i], digest, asked)
	}
	if e.again {
		e.review()
	}
}
