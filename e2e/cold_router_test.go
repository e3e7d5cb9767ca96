package e2e

import (
	"os"
	"strings"
	"testing"
)

// A router that is started under load of templates that a classifier knows does not ask
// again for them: of the look-ups of its first second 99.9 % succeed.
func TestARouterStartedUnderLoadKnowsTheVerdicts(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	texts := templates(200)
	c := r.connect()
	for _, text := range texts {
		c.must(text)
	}
	c.close()
	router := r.Service("router", 1)
	taken := func() int {
		log, err := os.ReadFile(router.LogFile())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(log), "verdicts taken over")
	}
	for round := range 3 {
		// A router that has waited for the verdicts long enough takes sessions without, as it
		// may on a busy machine: such a start does not count.
		for try, before := 1, taken(); taken() == before; try++ {
			if try > 10 {
				t.Fatal("the router does not begin with the verdicts there are")
			}
			r.kill("router", 1)
			r.start("router", 1)
		}
		const sessions, each = 8, 500
		done := make(chan error, sessions)
		for s := range sessions {
			c := r.connect()
			go func() {
				var err error
				for n := s; n < s+each && err == nil; n++ {
					_, err = c.run(texts[n%len(texts)])
				}
				done <- err
			}()
		}
		for range sessions {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		var hits, misses float64
		r.until("the router has counted all look-ups", func() bool {
			hits, misses = r.metric("pgpilot_router_verdict_cache_hits_total"), r.metric("pgpilot_router_verdict_cache_misses_total")
			return hits+misses >= sessions*each
		})
		if rate := 100 * hits / (hits + misses); rate < 99.9 {
			t.Errorf("round %d: %.2f %% of the look-ups succeeded, %.0f of %.0f did not", round, rate, misses, hits+misses)
		}
	}
}
