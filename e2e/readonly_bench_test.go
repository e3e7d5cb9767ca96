package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkReadOnlyTransactions compares read-only transactions of five single-row reads
// on replicas with the same on the primary, in pairs of rounds with eight sessions.
func BenchmarkReadOnlyTransactions(b *testing.B) {
	const round = 5 * time.Second
	cluster := newCluster(b)
	r := newRig(b, cluster, nil)
	c := r.connect()
	c.must("CREATE TABLE items AS SELECT i AS k, i AS v FROM generate_series(1, 1000) AS i")
	c.must("ALTER TABLE items ADD PRIMARY KEY (k)")
	r.caughtUp()
	r.awaitReplicas(cluster.Replicas()...)
	took := map[string][]time.Duration{}
	measure := func(where string) {
		var mu sync.Mutex
		var work sync.WaitGroup
		until := time.Now().Add(round)
		for s := range 8 {
			c := r.connect()
			c.must("SET pgpilot.route = '" + where + "'")
			work.Go(func() {
				defer c.close()
				var mine []time.Duration
				for n := s; time.Now().Before(until); n++ {
					start := time.Now()
					texts := []string{"BEGIN READ ONLY"}
					for i := range 5 {
						texts = append(texts, fmt.Sprintf("SELECT v FROM items WHERE k = %d", 1+(n+i)%1000))
					}
					for _, text := range append(texts, "COMMIT") {
						if _, err := c.run(text); err != nil {
							b.Error(err)
							return
						}
					}
					mine = append(mine, time.Since(start))
				}
				mu.Lock()
				defer mu.Unlock()
				took[where] = append(took[where], mine...)
			})
		}
		work.Wait()
	}
	rounds := 0
	for b.Loop() {
		measure("primary")
		measure("auto")
		rounds++
	}
	for where, all := range took {
		slices.Sort(all)
		b.ReportMetric(float64(len(all))/(float64(rounds)*round.Seconds()), where+"-tx/s")
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), where+"-p50-µs")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), where+"-p99-µs")
	}
	b.ReportMetric(0, "ns/op")
}
