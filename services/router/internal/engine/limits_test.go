package engine

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/services/router/internal/pool"
)

// A connection is missed where a session has waited long for one that there is room for only
// without it.
func TestWhoMissesAConnection(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		limit  int // backends.max_connections
		waits  func(own, other, elsewhere *site, who *client)
		since  time.Time
		missed bool
	}{
		"nobody":                       {waits: func(_, _, _ *site, _ *client) {}, since: now},
		"in its pool":                  {waits: func(own, _, _ *site, who *client) { own.wait(who) }, since: now, missed: true},
		"not for long":                 {waits: func(own, _, _ *site, who *client) { own.wait(who) }, since: now.Add(-1)},
		"one is being made":            {waits: func(own, _, _ *site, who *client) { own.wait(who); own.Max++; own.Connect() }, since: now},
		"in another pool, full":        {waits: func(_, other, _ *site, who *client) { other.Adopt(); other.wait(who) }, since: now},
		"in another pool":              {waits: func(_, other, _ *site, who *client) { other.wait(who) }, since: now},
		"in another pool, full server": {limit: 1, waits: func(_, other, _ *site, who *client) { other.wait(who) }, since: now, missed: true},
		"in another pool, both full":   {limit: 2, waits: func(_, other, _ *site, who *client) { other.Adopt(); other.wait(who) }, since: now},
		"in another pool, refused":     {limit: 1, waits: func(_, other, _ *site, who *client) { other.wait(who); other.pause() }, since: now},
		"in its pool, refused":         {waits: func(own, _, _ *site, who *client) { own.wait(who); own.pause() }, since: now, missed: true},
		"for another server":           {limit: 1, waits: func(_, _, elsewhere *site, who *client) { elsewhere.wait(who) }, since: now},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Engine{cfg: &config.Config{}, pools: map[poolKey]*site{}, routers: shareOfRouters{count: 1}}
			e.cfg.Servers.MaxConnections = c.limit
			sites := [3]*site{}
			for i, k := range []poolKey{{Backend: 0, User: "own"}, {Backend: 0, User: "other"}, {Backend: 1, User: "own"}} {
				if len(e.servers) <= k.Backend {
					e.servers = append(e.servers, &serverSite{})
				}
				p := &site{e: e, key: k}
				p.Max, p.Total = 1, &e.servers[k.Backend].total
				e.pools[k], sites[i] = p, p
			}
			sites[0].Adopt() // what is asked about
			c.waits(sites[0], sites[1], sites[2], &client{wait: waiting{since: now}})
			if got := sites[0].missed(c.since); got != c.missed {
				t.Errorf("missed: %v", got)
			}
		})
	}
}

// A pool that has no connection gets the place of one that comes back, unless the server has just
// refused it: it could not use the place, and the one whose it was would have to log in again.
func TestWhoStarves(t *testing.T) {
	for name, c := range map[string]struct {
		limit   int
		waits   func(own, other *site, who *client)
		starves bool
	}{
		"nobody":                   {1, func(_, _ *site, _ *client) {}, false},
		"another pool":             {1, func(_, other *site, who *client) { other.wait(who) }, true},
		"there is room":            {2, func(_, other *site, who *client) { other.wait(who) }, false},
		"its own":                  {1, func(own, _ *site, who *client) { own.wait(who) }, false},
		"one that was refused":     {1, func(_, other *site, who *client) { other.wait(who); other.pause() }, false},
		"its pause is over":        {1, func(_, other *site, who *client) { other.wait(who); other.pause(); other.e.timers.Stop(&other.retry) }, true},
		"one that has some by now": {2, func(_, other *site, who *client) { other.Adopt(); other.wait(who) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Engine{cfg: &config.Config{}, pools: map[poolKey]*site{}, routers: shareOfRouters{count: 1}, servers: []*serverSite{{}}}
			e.cfg.Servers.MaxConnections = c.limit
			sites := [2]*site{}
			for i, user := range []string{"own", "other"} {
				p := &site{e: e, key: poolKey{User: user}}
				p.Max, p.Total = 1, &e.servers[0].total
				e.pools[p.key], sites[i] = p, p
			}
			sites[0].Adopt() // what comes back
			c.waits(sites[0], sites[1], &client{})
			if got := e.starving(sites[0]); (got == sites[1]) != c.starves {
				t.Errorf("starving: %v", got != nil)
			}
		})
	}
}

func (p *site) wait(who *client) { p.Wait(pool.Waiter[*client]{For: who}) }
