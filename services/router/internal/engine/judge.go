package engine

import (
	"bytes"
	"errors"
	"log/slog"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// lexHere is the longest text that is lexed on the loop, in bytes; a longer one
// would hold up other sessions.
const lexHere = 16 << 10

// known looks a statement's verdict up. ok is false if it has to be asked for.
func (e *Engine) known(c *client, text []byte) (v verdict.Verdict, ok bool) {
	if len(text) > lexHere {
		return v, false
	}
	r, err := e.scanner.Scan(text, &sqltoken.Options{Context: c.context, ServerMajor: c.major})
	if err != nil || c.unchecked(r) {
		return c.hidden(verdict.Unjudged(text, r, c.major), text), true
	}
	return e.cache.Get(r.Key, c.generation)
}

// Unsuited implements session.Env.
func (c *client) Unsuited(_ *session.Session, text []byte) {
	e := c.e
	if len(text) > lexHere {
		return
	}
	r, err := e.scanner.Scan(text, &sqltoken.Options{Context: c.context, ServerMajor: c.major})
	if err != nil {
		return
	}
	if v, ok := e.cache.Get(r.Key, c.generation); ok {
		v.Kind = verdict.Write
		e.cache.Put(c.login.Database, r.Key, v)
	}
}

// unchecked reports whether the server may read the text otherwise than the
// router has lexed it.
func (c *client) unchecked(r sqltoken.Result) bool {
	return c.escapes() || c.foreign && r.NonASCII || c.folding && r.NonASCIIName
}

// escapes reports whether servers may read backslashes in the session's ordinary strings as
// escapes.
func (c *client) escapes() bool { return c.backslashes || c.s.Escapes() }

// judge asks for a statement's verdict.
func (e *Engine) judge(c *client, text []byte) {
	c.judging++
	question := c.judging
	own := string(text)
	opts := sqltoken.Options{Context: c.context, ServerMajor: c.major}
	if len(text) <= lexHere {
		r, err := e.scanner.Scan(text, &opts)
		e.ask(c, question, own, r, err)
		return
	}
	e.work.Go(func() {
		r, err := sqltoken.NewScanner(e.opts.Secret).Scan([]byte(own), &opts)
		e.Post(func() {
			if v, ok := e.cache.Get(r.Key, c.generation); ok && err == nil && !c.unchecked(r) {
				e.judged(c, question, v)
				return
			}
			e.ask(c, question, own, r, err)
		})
	})
}

// ask puts the question to a classifier.
func (e *Engine) ask(c *client, question uint64, text string, r sqltoken.Result, err error) {
	if err != nil || c.unchecked(r) {
		e.unjudged(c, question, text, r)
		return
	}
	r.Hints = nil // they are the scanner's
	key := r.Key
	e.opts.Judge(verdict.Request{Key: key, Database: c.login.Database, Text: text}, func(v verdict.Verdict, err error) {
		e.Post(func() {
			if err != nil {
				e.metrics.Unjudged.Inc()
				if errors.Is(err, verdict.ErrVersion) {
					e.metrics.Foreign.Inc()
				}
				e.complain(c, err)
				e.unjudged(c, question, text, r)
				return
			}
			e.learn(c.login.Database, key, v)
			e.judged(c, question, v)
		})
	})
}

// unjudged gives the session the verdict on a text that nobody has judged.
func (e *Engine) unjudged(c *client, question uint64, text string, r sqltoken.Result) {
	if len(text) <= lexHere {
		e.judged(c, question, c.hidden(verdict.Unjudged([]byte(text), r, c.major), []byte(text)))
		return
	}
	major := c.major
	e.work.Go(func() {
		own := []byte(text)
		v := verdict.Unjudged(own, r, major)
		e.Post(func() { e.judged(c, question, c.hidden(v, own)) })
	})
}

// hidden adds to the verdict on a text in which the server finds other strings than the
// router: any name may be behind one of them.
func (c *client) hidden(v verdict.Verdict, text []byte) verdict.Verdict {
	if c.escapes() && bytes.IndexByte(text, '\\') >= 0 {
		v.Effects |= verdict.Session
	}
	return v
}

// complainEvery is the least time between two warnings of the same kind.
const complainEvery = 10 * time.Second

// complain says that statements are taken for writes. A classifier that does not
// answer at all, of another build for one, would otherwise show only in that nothing
// is read from replicas.
func (e *Engine) complain(c *client, err error) {
	level := slog.LevelDebug
	if e.now.Sub(e.complained) >= complainEvery {
		level, e.complained = slog.LevelWarn, e.now
	}
	c.log.Log(e.workCtx, level, "statements are taken for writes, for want of an answer of a classifier", obs.KeyError, err)
}

// judged gives the session the verdict, unless it has gone on without.
func (e *Engine) judged(c *client, question uint64, v verdict.Verdict) {
	if c.closed || c.judging != question {
		return
	}
	c.s.Judged(v)
	c.perform()
	c.resume()
	e.runReady()
}

// Verdict takes a verdict from the bus; from any goroutine.
func (e *Engine) Verdict(database string, key sqltoken.Key, v verdict.Verdict) {
	e.Post(func() { e.learn(database, key, v) })
}

// learn keeps a verdict. One of a newer generation tells of a flush, whose own news may be
// late or lost. It may be one of a classifier that could not look into the database: whoever
// can some day says so only if he follows it.
func (e *Engine) learn(database string, key sqltoken.Key, v verdict.Verdict) {
	e.flush(database, v.Generation)
	e.follow(database)
	e.cache.Put(database, key, v)
}

// follow has the classifiers follow a database.
func (e *Engine) follow(database string) {
	if e.opts.Follow != nil {
		e.opts.Follow(database)
	}
}

// FlushVerdicts ends the verdicts of a database that are older than generation;
// from any goroutine.
func (e *Engine) FlushVerdicts(database string, generation uint64) {
	e.Post(func() { e.flush(database, generation) })
}

func (e *Engine) flush(database string, generation uint64) {
	if !e.cache.Flush(database, generation) {
		return
	}
	e.follow(database)
	e.soil(database)
	for _, c := range e.clients {
		if c.login.Database == database {
			c.generation = generation
			c.aged = c.s.Phase() != session.Idle || len(c.unread) > 0
		}
	}
}

// soil has the connections to a database cleaned before anybody else gets them, since its
// catalog has changed: a function may have been made one that leaves something in the session,
// and been called by statements that counted as proven until now. One that is idle is cleaned
// at once, unless its last session is to find there what its sequences have given.
func (e *Engine) soil(database string) {
	for key, p := range e.pools {
		if key.Database != database {
			continue
		}
		for _, s := range p.all() {
			if s.soiled = true; s.stepper == nil && p.Claim(s) {
				s.used = true
				s.comeBack()
			}
		}
	}
}
