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
		was, run := b.Healthy, b.Run
		e.tracker.Lag(&m, e.now)
		if b.Run != run {
			e.servers[i].catchup.Restart()
		}
		e.arrivedAt(i)
		if was && !b.Healthy {
			e.evacuate(i)
		}
		e.retryStranded()
		e.runReady()
	})
}
