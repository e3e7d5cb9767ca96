package engine

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// apply takes what can change of the configuration, or nothing of it.
func (e *Engine) apply(c *config.Config) error {
	p, err := partsOf(c)
	if err != nil {
		return err
	}
	e.cfg, e.users, e.targets = c, p.users, p.targets
	e.defaults = p.defaults
	e.monitor = p.monitor
	e.settings = session.Settings{
		Values:     p.values,
		Bound:      time.Duration(c.Fencing.BoundedMS) * time.Millisecond,
		PerSession: c.Pool.Mode == config.Session,
		LazyBegin:  c.Routing.LazyBegin,

		ReadOnlyOnReplicas: c.Routing.ReadOnlyTransactions,
		MaxText:            c.Classify.MaxText,

		MaxStatements: c.Pool.MaxPreparedStatements,
	}
	for _, c := range e.clients {
		c.settings = e.settingsFor(c.login)
	}
	e.policy = policyOf(c.Routing.Policy)
	e.tracker.Set(e.trackerSettings(c))
	e.settleServers()
	e.equipServers()
	e.cache.Resize(c.Classify.CacheSize)
	e.resize()
	return nil
}

// policyOf gives a policy by its name in the configuration.
func policyOf(name string) route.Policy {
	switch name {
	case config.RoundRobin:
		return route.RoundRobin
	case config.Scored:
		return route.Scored
	}
	return route.LeastInFlight
}

// Reload takes a new configuration, from any goroutine.
func (e *Engine) Reload(c *config.Config) {
	e.Post(func() {
		if err := e.apply(c); err != nil {
			e.log.Error("kept the old configuration", "error", err)
		}
	})
}
