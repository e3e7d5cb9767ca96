package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// shaping gives what is added to a login's startup parameters where a connection is made to
// another server than the primary: the values that the primary reports to it. The server may
// be configured otherwise, and a client must not see by its answers where a read ran.
func (e *Engine) shaping(l upstream.Login) []handoff.Parameter {
	return shapingOf(e.greetings[l], upstream.DecodeStartup(l.Startup))
}

// shapingOf gives those of the reported parameters that shape answers and that the login does
// not give itself.
func shapingOf(reported, startup []handoff.Parameter) (out []handoff.Parameter) {
	for _, p := range reported {
		given := func(s handoff.Parameter) bool { return strings.EqualFold(s.Name, p.Name) }
		if session.Shapes(p.Name) && !slices.ContainsFunc(startup, given) {
			out = append(out, p)
		}
	}
	return out
}

// unlike is why a connection is of no use: it would answer otherwise than the primary.
type unlike struct {
	// parameter with the primary's value, and the server's own.
	parameter handoff.Parameter
	own       string
	refusal   error
}

// Error implements error.
func (u *unlike) Error() string {
	return fmt.Sprintf("the server does not take the primary's %s, %q, and has %q itself: %v", u.parameter.Name, u.parameter.Value, u.own, u.refusal)
}

// Unwrap gives the server's refusal.
func (u *unlike) Unwrap() error { return u.refusal }

// connectAlike makes a connection with the login's startup parameters and the values that
// are given to it. A server may refuse one of these, as it does a time zone of which its
// operating system knows nothing. It is then asked to let the login in without them. If it
// reports the same values by itself, nothing is amiss. If not, the error is an *unlike: reads
// stay off a server that would answer them otherwise than the primary, since a wrong answer
// is worse than a primary with more to do.
func connectAlike(startup, given []handoff.Parameter, connect func([]handoff.Parameter) (*upstream.Made, error)) (*upstream.Made, error) {
	m, err := connect(slices.Concat(startup, given))
	if err == nil || len(given) == 0 || !refusesParameter(err) {
		return m, err
	}
	refusal := err
	if m, err = connect(startup); err != nil {
		return nil, err
	}
	for _, p := range given {
		i := slices.IndexFunc(m.Parameters, func(q handoff.Parameter) bool { return q.Name == p.Name })
		if i >= 0 && m.Parameters[i].Value == p.Value {
			continue
		}
		poll.Hangup(m.FD)
		u := &unlike{parameter: p, refusal: refusal}
		if i >= 0 {
			u.own = m.Parameters[i].Value
		}
		return nil, u
	}
	return m, nil
}

// refusesParameter reports whether a login was refused for a parameter: its value
// (invalid_parameter_value), or that the server does not know it (undefined_object).
func refusesParameter(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "22023" || pg.Code == "42704")
}

// unlikeFor is how long a login's reads stay off a server before it is asked again: it may
// have been given what it lacked.
const unlikeFor = time.Minute

// avoidance is why, and until when, no connection is made.
type avoidance struct {
	until time.Time
	// parameter is the primary's, which the server does not take; none where it has not
	// replayed what is stored for the role.
	parameter handoff.Parameter
}

// avoids reports whether connections with these startup parameters would answer otherwise
// than the primary.
func (p *site) avoids(startup string) bool {
	a, ok := p.unlike[startup]
	return ok && p.e.now.Before(a.until)
}

// remembers reports whether any connection is not to be made: a pool that was forgotten
// would try again at once.
func (p *site) remembers() bool {
	for startup := range p.unlike {
		if p.avoids(startup) {
			return true
		}
	}
	return false
}

// avoid has the sessions of a login read elsewhere. Others of the same user and database,
// which give the parameter themselves, are not concerned.
func (p *site) avoid(startup string, u *unlike) {
	e := p.e
	if p.unlike == nil || len(p.unlike) >= maxGreetings {
		p.unlike = map[string]avoidance{}
	}
	p.unlike[startup] = avoidance{e.now.Add(unlikeFor), u.parameter}
	e.connectedTo(p.key.Backend) // the server is well
	e.complainOf(p, u)
	for _, c := range p.ConnectFailed(startup, true) {
		p.sendElsewhere(c)
	}
	e.refill(p)
}

// difference is what is complained of once.
type difference struct {
	backend   int
	parameter handoff.Parameter
}

func (e *Engine) complainOf(p *site, u *unlike) {
	d := difference{p.key.Backend, u.parameter}
	if _, said := e.differences[d]; said {
		return
	}
	if len(e.differences) >= maxGreetings {
		clear(e.differences)
	}
	e.differences[d] = struct{}{}
	e.log.Warn(fmt.Sprintf("reads stay off a server that does not take the primary's %s: set %[1]s on the primary to a value that both servers know, or have this one know it too (a time zone: install the time zones that the primary's operating system has)", u.parameter.Name),
		obs.KeyBackend, e.servers[p.key.Backend].name, obs.KeyUser, p.key.User, obs.KeyDatabase, p.key.Database,
		"parameter", u.parameter.Name, "value", u.parameter.Value, "own", u.own, obs.KeyError, u.refusal)
}

// takeStock notes what the server has reported of a connection to the primary that comes
// back. What no session has left on it is, if it is another value than at its beginning,
// the server's configuration, which has been reloaded: the login's connections to replicas
// have begun with what it was.
func (s *server) takeStock() {
	p := s.site
	if s.broken || len(s.given) > 0 || p.key.Backend != p.e.tracker.Table().Primary {
		return
	}
	now, differs := s.reported.Over(s.params, s.Settings != (settings.Hash{}))
	if !differs {
		return
	}
	s.params = now
	login := p.login(s.Startup)
	p.e.greeted(login, now)
	p.e.retire(login)
}

// outdated reports whether a connection to a replica answers otherwise than the primary does
// by now: other values were given to it, and it has not reported the same by itself. One that
// was given any before its server became the primary is so for good: the server's own count now.
func (e *Engine) outdated(s *server, l upstream.Login) bool {
	if s.site.key.Backend == e.tracker.Table().Primary {
		return len(s.given) > 0
	}
	want := e.shaping(l)
	return len(want) > 0 && !slices.Equal(s.given, want) && !slices.Equal(shapingOf(s.params, upstream.DecodeStartup(l.Startup)), want)
}

// retire closes the login's connections that are outdated, those that are lent when they come
// back. Where the values were not taken, the new ones may be.
func (e *Engine) retire(l upstream.Login) {
	for i := range e.servers {
		p := e.pools[poolKey{Backend: i, User: l.User, Database: l.Database}]
		if p == nil {
			continue
		}
		if a, ok := p.unlike[l.Startup]; ok && a.parameter.Name != "" && !slices.Contains(e.greetings[l], a.parameter) {
			delete(p.unlike, l.Startup)
		}
		for _, s := range p.all() {
			if s.Startup == l.Startup {
				s.retire()
			}
		}
	}
}

// retire closes the connection if it is outdated and nobody has it.
func (s *server) retire() {
	p := s.site
	if s.closed || !p.e.outdated(s, p.login(s.Startup)) {
		return
	}
	if s.outdated = true; p.DropIdle(s) {
		p.forget(s)
		p.e.refill(p)
	}
}

// retireAll retires all connections to a server that has become the primary.
func (e *Engine) retireAll(backend int) {
	for k, p := range e.pools {
		if k.Backend != backend {
			continue
		}
		for _, s := range p.all() {
			s.retire()
		}
	}
}
