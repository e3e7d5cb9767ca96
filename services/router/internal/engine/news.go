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
		e.arrivedAt(i)
		if was && !b.Healthy {
			e.evacuate(i)
		}
		e.retryStranded()
		e.runReady()
	})
}
