package engine

import (
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/router/internal/breaker"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/pool"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/topology"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// serverSite is one server, at the tracker's index of it.
type serverSite struct {
	name, address string
	target        dial.Server
	connector     *upstream.Connector
	// heard is when the server last said anything on any connection, or began to have
	// something to say; checking, that it is being asked whether it is there.
	heard    time.Time
	checking bool
	// catchup is how long it takes to replay what is wanted, in its run.
	catchup fence.Catchup
	run     uint32
	replay  replay
	// total is how many connections its pools have, parting how many it has not closed yet
	// that have been given up.
	total   pool.Total
	parting int
	// foreign says that it has been told to be of another cluster than the primary.
	foreign bool
	// latest is the pool that was looked for last, nil for none.
	latest *site
	// left is when it has left the configuration.
	left time.Time
	// decisions count what was for it, by its role then.
	decisions [3]prometheus.Counter
}

// Waits of the circuit breaker of a server that cannot be reached: from, doubling
// up to, or health.max_backoff if that is shorter.
const (
	breakerFrom = 200 * time.Millisecond
	breakerUpTo = 5 * time.Second
)

func (e *Engine) trackerSettings(c *config.Config) topology.Settings {
	upTo := min(breakerUpTo, c.Health.MaxBackoff.D())
	return topology.Settings{
		StaleAfter: c.Health.StaleAfter.D(), SlowStart: c.Routing.SlowStart.D(), Clock: e.clock.Name, Host: e.opts.Host,
		Breaker: breaker.Settings{Base: min(breakerFrom, upTo), Max: upTo, Random: rand.Float64},
	}
}

// settleServers makes the servers those of the configuration: it takes up new ones,
// drains those that are gone or have moved, and gives up the drained ones. What has no
// room yet, because a drained one still takes it, gets it at the next call.
func (e *Engine) settleServers() {
	wanted := map[string]config.Backend{}
	for _, b := range e.cfg.Backends() {
		wanted[b.Name] = b
	}
	for i, s := range e.servers {
		switch b, ok := wanted[s.name]; {
		case e.tracker.Leaving(i):
			e.giveUp(i)
		case !ok || b.Address != s.address:
			e.leave(i)
			e.giveUp(i)
		}
	}
	for _, b := range e.cfg.Backends() {
		if i := e.tracker.Index(b.Name); i < 0 || i >= len(e.servers) {
			e.join(b, i)
		}
	}
}

// equipServers tells the servers what the configuration says of them.
func (e *Engine) equipServers() {
	for _, b := range e.cfg.Backends() {
		i := e.tracker.Index(b.Name)
		if i < 0 {
			continue // there is no room for it yet
		}
		s := e.servers[i]
		s.target = e.targets[b.Name]
		s.connector.Set(s.target, e.monitor, e.cfg.Monitor.Database)
		e.tracker.SetWeight(i, b.Weight)
	}
}

// join takes up a server; i is its index if the tracker knows it already, which it
// does of the configured primary from the start.
func (e *Engine) join(b config.Backend, i int) {
	if i < 0 {
		var ok bool
		if i, ok = e.tracker.Add(b.Name, e.now); !ok {
			e.log.Error("server is not used: there are too many", obs.KeyBackend, b.Name, "most", route.MaxBackends)
			return
		}
	}
	t := e.targets[b.Name]
	s := &serverSite{
		name: b.Name, address: b.Address, target: t, heard: e.now,
		connector: upstream.NewConnector(t, e.monitor, e.cfg.Monitor.Database, connectTimeout),
	}
	s.replay.init(e, i, s)
	e.tracker.SetWeight(i, b.Weight)
	e.tracker.Locate(i, b.Address)
	if i == len(e.servers) {
		e.servers = append(e.servers, s)
	} else {
		e.servers[i] = s
	}
}

// leave drains a server: nothing more is sent there, sessions that wait for a
// connection to it look elsewhere, idle connections are closed at once and lent ones
// when they come back.
func (e *Engine) leave(i int) {
	e.log.Info("server is no longer configured: its connections are closed as they come back", obs.KeyBackend, e.servers[i].name, obs.KeyAddress, e.servers[i].address)
	e.servers[i].left = e.now
	e.tracker.Leave(i)
	e.evacuateWaiters(i)
	e.resize()
	e.probe.start()
}

// spread is how far apart routers may take up a new configuration: as long, what is read
// on a server that has left may still be read by another router's sessions. All routers
// watch the same file, or are sent SIGHUP one right behind the other, and each takes it up in
// its loop's next turn: two seconds are for a machine that has no time for one of them. It is
// no key of the configuration, as nobody would have a reason to give another value.
//
// No limit is exceeded meanwhile. Each router has its part of either the old number or the
// new one, its rank among the routers being the same, and the parts of one number add up to
// that: all together have at most the larger of the two.
const spread = 2 * time.Second

// giveUp ends a server that has left once nobody uses it any more.
func (e *Engine) giveUp(i int) {
	b := &e.tracker.Table().Backends[i]
	if b.InFlight != 0 || b.Held != 0 || e.tracker.Free(i) || e.now.Sub(e.servers[i].left) < spread {
		return
	}
	for k, p := range e.pools {
		if k.Backend != i {
			continue
		}
		if p.Size() > 0 || p.Waiters() > 0 {
			return
		}
		e.forgetPool(p)
	}
	s := e.servers[i]
	e.log.Info("server is given up", obs.KeyBackend, s.name, obs.KeyAddress, s.address)
	e.metrics.forget(s.name)
	e.barrier.leave(i)
	s.replay.giveUp()
	e.work.Go(s.connector.Close)
	e.tracker.Release(i)
}
