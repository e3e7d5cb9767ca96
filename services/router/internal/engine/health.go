package engine

import (
	"context"

	"github.com/pgpilot/pgpilot/libs/obs"
)

// evidence is why a server is left alone; it is a metric label.
type evidence string

// Evidence of the router's own.
const (
	refused evidence = "refused" // or not answered, or starting, stopping
	lost    evidence = "lost"    // several connections ended in a short time
	silent  evidence = "silent"  // nothing said for longer than health.timeout, and asked in vain
)

// failed notes that a server refused a connection or did not answer.
func (e *Engine) failed(backend int, why evidence) {
	opened := e.tracker.Failed(backend, e.now)
	e.leftAlone(backend, opened, why)
}

// lostConnection notes that a server has ended a connection by itself.
func (e *Engine) lostConnection(backend int) {
	if e.tracker.Lost(backend, e.now) {
		e.leftAlone(backend, true, lost)
	}
}

// leftAlone sees to it that a server is probed, and moves who waits for it.
func (e *Engine) leftAlone(backend int, opened bool, why evidence) {
	e.probeServers()
	if !opened {
		return
	}
	e.metrics.opened.WithLabelValues(e.servers[backend].name, string(why)).Inc()
	e.log.Warn("server is left alone for a while", obs.KeyBackend, e.servers[backend].name, obs.KeyReason, string(why))
	if backend != e.tracker.Table().Primary {
		e.evacuateWaiters(backend)
	}
}

// connectedTo notes that a server took a connection.
func (e *Engine) connectedTo(backend int) {
	e.tracker.Connected(backend, e.now)
	e.servers[backend].heard = e.now
}

// probeServers probes the servers that have been left alone for long enough, and
// comes again when the next one is due.
func (e *Engine) probeServers() {
	due, next := e.tracker.Probes(e.now)
	for _, i := range due {
		e.check(i, refused)
	}
	if next.IsZero() {
		e.timers.Stop(&e.breaker)
		return
	}
	e.timers.Set(&e.breaker, next, e.probeServers)
}

// check asks a server whether it is there. why says what it means if it is not.
func (e *Engine) check(backend int, why evidence) {
	s := e.servers[backend]
	if s.checking {
		return
	}
	s.checking = true
	within := e.cfg.Health.Timeout.D()
	e.work.Go(func() {
		ctx, stop := context.WithTimeout(e.workCtx, within)
		defer stop()
		err := s.connector.Check(ctx)
		e.Post(func() {
			s.checking = false
			if e.servers[backend] != s || e.tracker.Leaving(backend) {
				return
			}
			if err == nil {
				e.connectedTo(backend)
				return
			}
			e.log.Debug("server does not answer", obs.KeyBackend, s.name, obs.KeyError, err)
			e.failed(backend, why)
			if why == silent {
				e.evacuate(backend)
			}
			e.runReady()
		})
	})
}

// watchSilent finds servers that hang: they have statements to answer and have said
// nothing for health.timeout. A statement may take longer than that, so they are
// asked whether they are there, which is to be answered within the same time; no
// client's own timeout comes into it.
func (e *Engine) watchSilent() {
	longAgo := e.now.Add(-e.cfg.Health.Timeout.D())
	for i := range e.servers {
		b := &e.tracker.Table().Backends[i]
		if b.InFlight > 0 && !b.Down && e.servers[i].heard.Before(longAgo) {
			e.check(i, silent)
		}
	}
}

// evacuate moves what it can off a server that has fallen ill, which may have hung
// without closing a connection: reads of whose answer nothing has been shown, and
// sessions that wait for a connection to a replica.
func (e *Engine) evacuate(backend int) {
	for k, p := range e.pools {
		if k.Backend != backend {
			continue
		}
		for _, s := range p.all() {
			if c := s.owner; c != nil && !s.closed && c.s.Reruns() && c.conns[c.s.Slot()] == s {
				s.broken = true
				c.resume()
			}
		}
	}
	if backend != e.tracker.Table().Primary {
		e.evacuateWaiters(backend)
	}
}

// evacuateWaiters lets the sessions that wait for a connection to the server look
// elsewhere.
func (e *Engine) evacuateWaiters(backend int) {
	for k, p := range e.pools {
		if k.Backend != backend {
			continue
		}
		for _, c := range p.Evacuate() {
			c.wait.in = nil
			c.uncount()
			if c.wait.request.Read {
				c.wait.request.Tried = c.wait.request.Tried.With(backend)
			}
			e.ready = append(e.ready, grant{c: c})
		}
	}
}

// heardFrom notes that a server has spoken.
func (e *Engine) heardFrom(backend int) { e.servers[backend].heard = e.now }
