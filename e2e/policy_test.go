package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
)

// One replica answers slowly, the more so the more it has to answer. The simulation
// says in which order the policies cope (services/router/internal/contest); this is
// the same on real servers.
//
//nolint:paralleltest // other tests beside it would hide which policy is quicker
func TestPoliciesWithASlowReplica(t *testing.T) {
	cluster := newCluster(t)
	proxies, behind := behindProxies(t, cluster)
	r := newRig(t, cluster, func(c *config.Config) {
		behind(c)
		c.Pool.MinSize = 16 // connecting through a slow proxy would be part of the picture
	})
	direct(t, cluster.Primary()).must("CREATE TABLE slow AS SELECT repeat('s', 1000) AS text FROM generate_series(1, 10) g; GRANT SELECT ON slow TO PUBLIC")
	r.caughtUp()
	const read = "SELECT text FROM slow"
	var readers []*client
	for range 16 {
		c := r.connect()
		c.must(read)
		readers = append(readers, c)
	}
	for _, m := range cluster.Replicas() {
		r.until("connections to "+m.Name+" are there", func() bool { return r.metric("pgpilot_pool_connections", "backend", m.Name, "state", "idle") >= 16 })
	}
	// One replica takes 2 ms, however many statements there are. With the other, 10 kB
	// at 512 kB/s are 20 ms, for each answer in the queue.
	proxies[cluster.Members()[1].Name].Delay(2 * time.Millisecond)
	proxies[cluster.Members()[2].Name].Throttle(512 << 10)
	p99 := func(policy string) time.Duration {
		r.configure(func(c *config.Config) { c.Routing.Policy = policy })
		r.until("every service has the policy", func() bool {
			_, body := r.get("/router/1/config")
			return strings.Contains(body, `"policy": "`+policy+`"`)
		})
		var mu sync.Mutex
		var took []time.Duration
		var wg sync.WaitGroup
		for _, c := range readers {
			wg.Go(func() {
				for n := range 80 {
					from := time.Now()
					if _, err := c.run(read); err != nil {
						t.Error(err)
						return
					}
					if n < 20 { // it learns
						continue
					}
					mu.Lock()
					took = append(took, time.Since(from))
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	// What else the machine does may hide the order, so it gets several chances to show.
	const tries = 10
	for try := range tries {
		turns, least, scored := p99(config.RoundRobin), p99(config.LeastInFlight), p99(config.Scored)
		t.Logf("p99: round-robin %v, least-in-flight %v, scored %v", turns, least, scored)
		switch {
		case scored < least && least < turns:
			return
		case try == tries-1:
			t.Errorf("p99 of scored is %v, of least-in-flight %v, of round-robin %v; want them in rising order", scored, least, turns)
		}
	}
}
