package engine

import (
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// Beginnings implements session.Env: what the newest connection to the primary for this
// login began with.
func (c *client) Beginnings() session.Beginnings { return c.beginnings }

// beginning is what a session goes by, and what it was read from.
type beginning struct {
	session.Beginnings
	read *upstream.Beginnings
}

// begins remembers what a connection of the login begins with.
func (e *Engine) begins(l upstream.Login, d *upstream.Beginnings) {
	b := beginning{beginningsOf(d), d}
	if b.Beginnings != e.beginnings[l].Beginnings {
		for _, c := range e.clients {
			if c.login == l {
				c.beginnings = b.Beginnings
			}
		}
	}
	if len(e.beginnings) >= maxGreetings {
		clear(e.beginnings)
	}
	e.beginnings[l] = b
}

// beginningsOf reads them.
func beginningsOf(d *upstream.Beginnings) (out session.Beginnings) {
	if d == nil {
		return out
	}
	out.IdleInTransaction, out.Known = settings.ParseTime(d.IdleInTransaction)
	limit, ok := settings.ParseTime(d.Transaction)
	out.Limited = d.Transaction != "" && (!ok || limit != 0)
	out.Isolation = settings.ParseIsolation(d.Isolation)
	out.Temporary = settings.Temporary(d.SearchPath)
	return out
}

// limitIdle has the session end if it stays as it is for too long.
func (c *client) limitIdle(a *session.Action) {
	steps := c.s.Steps()
	c.e.timers.Set(&c.idleDue, c.e.now.Add(a.Wait), func() {
		c.s.IdleTooLong(steps)
		c.perform()
	})
}
