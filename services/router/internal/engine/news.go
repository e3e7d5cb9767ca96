package engine

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/services/router/internal/topology"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// Lag takes an observation from the bus; from any goroutine.
func (e *Engine) Lag(m bus.Lag) {
	e.Post(func() {
		i := e.tracker.Index(m.Backend)
		if i < 0 || m.Address != "" && m.Address == e.formerly[m.Backend] {
			return // of a server that is configured no more, or of the one that had this one's name
		}
		b := &e.tracker.Table().Backends[i]
		was := b.Healthy
		e.tracker.Lag(&m, e.now)
		e.hearStored(i, m.Settings)
		e.arrivedAt(i)
		if was && !b.Healthy {
			e.evacuate(i)
		}
		e.retryStranded()
		e.runReady()
	})
}

// observe takes the run that a connection has been made in, and numbers it; 0 if it has
// ended already.
func (e *Engine) observe(backend int, m *upstream.Made) uint32 {
	boot := e.clock.Now() - time.Since(m.At)
	return e.tracker.Observe(backend, m.Run, topology.Sight{At: m.At, Boot: boot.Microseconds()})
}
