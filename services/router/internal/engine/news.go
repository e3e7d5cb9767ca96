package engine

import "github.com/pgpilot/pgpilot/libs/bus"

// Lag takes an observation from the bus; from any goroutine.
func (e *Engine) Lag(m bus.Lag) {
	e.Post(func() {
		if e.tracker.Lag(&m, e.now) {
			e.retryStranded()
			e.runReady()
		}
	})
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
