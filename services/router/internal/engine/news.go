package engine

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/router/internal/topology"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// Lag takes an observation from the bus; from any goroutine.
func (e *Engine) Lag(m bus.Lag) {
	e.Post(func() {
		i := e.tracker.Find(m.Publisher, m.Backend, m.Address)
		if i < 0 {
			e.isAbroad(m.Backend, m.Address)
			return
		}
		b := &e.tracker.Table().Backends[i]
		was := b.Healthy
		e.tracker.Lag(&m, e.now)
		e.warnOfForeign(i)
		if m.Error == "" { // otherwise they are older
			e.hearStored(i, m.Settings)
		}
		e.arrivedAt(i)
		if was && !b.Healthy {
			e.evacuate(i)
		}
		e.retryStranded()
		e.runReady()
	})
}

// abroad is a server that news were about, with another address than the one of its name has
// here.
type abroad struct {
	address     string
	first, last time.Time
	told        bool
}

// isAbroad notes that news are about a server that is none of this router's. One that is not
// configured here is no matter. Another address is what a configuration says that has
// not arrived everywhere yet; where it stays so, nothing is known of that server, and
// somebody must be told.
func (e *Engine) isAbroad(name, address string) {
	i := e.tracker.Index(name)
	if i < 0 || i >= len(e.servers) {
		return
	}
	a := e.abroad[name]
	patience := e.cfg.Health.StaleAfter.D()
	if a == nil || a.address != address || e.now.Sub(a.last) > patience {
		a = &abroad{address: address, first: e.now}
		e.abroad[name] = a
	}
	if a.last = e.now; !a.told && a.last.Sub(a.first) > patience {
		a.told = true
		e.log.Warn("news of a server are ignored: the lagpoller has the address of another one for this name. Give all services the same configuration, or restart the one that keeps an old one",
			obs.KeyBackend, name, obs.KeyAddress, e.servers[i].address, "told", address)
	}
}

// warnOfForeign says once what to do about a server that has turned out to be of another cluster
// than the primary.
func (e *Engine) warnOfForeign(i int) {
	s, foreign := e.servers[i], e.tracker.Foreign(i)
	if foreign && !s.foreign {
		e.log.Warn("server is not used: it is of another database cluster than the primary. Correct its address, or rebuild it from the primary",
			obs.KeyBackend, s.name, obs.KeyAddress, s.address)
	}
	s.foreign = foreign
}

// observe takes the run that a connection has been made in, and numbers it; 0 if it has
// ended already.
func (e *Engine) observe(backend int, m *upstream.Made) uint32 {
	boot := e.clock.Now() - time.Since(m.At)
	return e.tracker.Observe(backend, m.Run, topology.Sight{At: m.At, Boot: boot.Microseconds()})
}
