package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
)

// templates gives n statements of different shape.
func templates(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("SELECT %d AS c%d WHERE 1 <> 2", i, i)
	}
	return out
}

// run has sessions execute statements until stop is closed, and gives the latencies.
func runUntil(b *testing.B, r *rig, sessions int, texts []string, stop <-chan struct{}) []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	var work sync.WaitGroup
	for s := range sessions {
		c := r.connect()
		work.Go(func() {
			var mine []time.Duration
			for n := s; ; n++ {
				select {
				case <-stop:
					mu.Lock()
					defer mu.Unlock()
					all = append(all, mine...)
					return
				default:
				}
				start := time.Now()
				if _, err := c.run(texts[n%len(texts)]); err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(start))
			}
		})
	}
	work.Wait()
	slices.Sort(all)
	return all
}

// BenchmarkColdRouter measures which share of the statements a router that has just
// started finds in its cache in its first second and in the next, under load of 200
// templates that a classifier knows.
func BenchmarkColdRouter(b *testing.B) {
	r := newRig(b, newCluster(b), nil)
	texts := templates(200)
	c := r.connect()
	for _, text := range texts {
		c.must(text)
	}
	c.close()
	for b.Loop() {
		r.kill("router", 1)
		r.start("router", 1)
		var hits, misses float64
		second := func() (n, h, m float64) {
			stop := make(chan struct{})
			time.AfterFunc(time.Second, func() { close(stop) })
			n = float64(len(runUntil(b, r, 8, texts, stop)))
			beforeHits, beforeMisses := hits, misses
			r.until("the router has counted all look-ups", func() bool {
				hits, misses = r.metric("pgpilot_router_verdict_cache_hits_total"), r.metric("pgpilot_router_verdict_cache_misses_total")
				return hits+misses >= beforeHits+beforeMisses+n
			})
			return n, hits - beforeHits, misses - beforeMisses
		}
		n, h, m := second()
		b.ReportMetric(n, "statements")
		b.ReportMetric(100*h/(h+m), "%first-second")
		_, h, m = second()
		b.ReportMetric(100*h/(h+m), "%next-second")
	}
}

// BenchmarkNeighbours measures other sessions' latency while one sends statements that
// each end a parser process.
func BenchmarkNeighbours(b *testing.B) {
	for _, poison := range []bool{false, true} {
		b.Run(map[bool]string{false: "alone", true: "beside poison"}[poison], func(b *testing.B) {
			r := newRig(b, newCluster(b), func(c *config.Config) { c.Classify.ParserTime = config.Duration(tediousTime) })
			texts := templates(200)
			for b.Loop() {
				stop := make(chan struct{})
				time.AfterFunc(3*time.Second, func() { close(stop) })
				var sender sync.WaitGroup
				if poison {
					c := r.connect()
					sender.Go(func() {
						for n := 0; ; n++ {
							select {
							case <-stop:
								return
							default: // a text of its own each time: none is in quarantine yet
								_, _ = c.run(strings.Replace(tedious, "a.b.c", fmt.Sprint("a.b.c", n), 1))
							}
						}
					})
				}
				all := runUntil(b, r, 4, texts, stop)
				sender.Wait()
				b.ReportMetric(float64(all[len(all)/2].Microseconds()), "µs-p50")
				b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "µs-p99")
				if poison && r.metric("pgpilot_classifier_quarantine_entries") == 0 {
					b.Fatal("nothing has ended a parser process")
				}
			}
		})
	}
}
