package engine

import "github.com/pgpilot/pgpilot/libs/bus"

// Lag takes an observation from the bus; from any goroutine.
func (e *Engine) Lag(m bus.Lag) {
	e.Post(func() {
		i := e.tracker.Index(m.Backend)
		if i < 0 {
			return
		}
		b := &e.tracker.Table().Backends[i]
		was := b.Healthy
		e.tracker.Lag(&m, e.now)
		if was && !b.Healthy {
			e.evacuate(i)
		}
		e.retryStranded()
		e.runReady()
	})
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
		if backend == e.tracker.Table().Primary {
			continue
		}
		for _, c := range p.Evacuate() {
			c.wait.in = nil
			c.uncount()
			c.wait.request.Tried = c.wait.request.Tried.With(backend)
			e.ready = append(e.ready, grant{c: c})
		}
	}
}

// Topology takes the news of who the primary is; from any goroutine.
func (e *Engine) Topology(m bus.Topology) {
	e.Post(func() {
		e.tracker.Topology(&m)
		e.probe.start()
		e.retryStranded()
		e.runReady()
	})
}
