package engine

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// Settings implements session.Env.
func (c *client) Settings() *session.Settings { return c.settings }

// Parsings implements session.Env.
func (c *client) Parsings() *session.Parsings { return &c.e.parsings }

// Moment implements session.Env.
func (c *client) Moment() time.Duration { return c.e.clock.Now() }

// Token implements session.Env.
func (c *client) Token(s *session.Session, _ lsn.Position) string {
	c.follow()
	at := s.Fence().Position()
	h := c.e.tracker.History()
	if h.SystemID == 0 || at.IsZero() || at.Timeline != h.Now.Timeline {
		return ""
	}
	return h.Token(at).String()
}

// Serves implements session.Env.
func (c *client) Serves(s *session.Session, by fence.Server) bool {
	e := c.e
	c.follow()
	r := route.Request{Read: true, Strict: true, Mode: fence.Causal, Fence: s.Fence().Position(), Only: route.Set(0).With(by.Backend), Run: by.Run}
	e.complete(&r)
	return route.Eligible(e.tracker.Table(), &r, by.Backend)
}

// Keep implements session.Env.
func (c *client) Keep(b []byte) []byte { return c.e.keep(b) }

// Drop implements session.Env.
func (c *client) Drop(b []byte) { c.e.drop(b) }

// Verdict implements session.Env.
func (c *client) Verdict(_ *session.Session, text []byte) (verdict.Verdict, bool) {
	return c.e.known(c, text)
}

// Current implements session.Env. A verdict that is no classifier's has no generation,
// so that the statement is asked about again.
func (c *client) Current(v verdict.Verdict) bool {
	return !v.Passing && v.Generation >= c.generation && !c.escapes()
}
