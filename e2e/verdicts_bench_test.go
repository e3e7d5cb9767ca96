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

// poisonRate is how many statements a second BenchmarkNeighbours sends beside the others.
const poisonRate = 3

// BenchmarkNeighbours measures other sessions' latency while one sends statements that
// each end a parser process. Before that it does so alone, and beside the same statement when it is
// in quarantine: what that changes is what a text of its length costs its way and the primary,
// and not the parser's doing. All three take turns, so that what else the machine does touches all.
func BenchmarkNeighbours(b *testing.B) {
	r := newRig(b, newCluster(b), func(c *config.Config) { c.Classify.ParserTime = config.Duration(tediousTime) })
	texts := templates(200)
	sender := r.connect()
	sent := 0
	fresh := func() string { // of its own each time: it is not in quarantine yet
		sent++
		return strings.Replace(tedious, "a.b.c", fmt.Sprint("a.b.c", sent), 1)
	}
	known := fresh()
	while := func(text func() string) []time.Duration {
		stop := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(stop) })
		var wg sync.WaitGroup
		if text != nil {
			wg.Go(func() {
				next := time.NewTicker(time.Second / poisonRate)
				defer next.Stop()
				for {
					_, _ = sender.run(text())
					select {
					case <-next.C:
					case <-stop:
						return
					}
				}
			})
		}
		defer wg.Wait()
		return runUntil(b, r, 4, texts, stop)
	}
	while(func() string { return known }) // every template is known, every connection there
	kinds := []struct {
		name string
		text func() string
		all  []time.Duration
	}{{name: "alone"}, {name: "quarantined", text: func() string { return known }}, {name: "poison", text: fresh}}
	ratios := map[string][]float64{}
	for b.Loop() {
		var last []time.Duration
		for i := range kinds {
			k := &kinds[i]
			now := while(k.text)
			k.all = append(k.all, now...)
			for _, p := range []int{50, 99} {
				if last != nil {
					of := fmt.Sprintf("p%d-%s/%s", p, k.name, kinds[i-1].name)
					ratios[of] = append(ratios[of], float64(at(now, p))/float64(at(last, p)))
				}
			}
			last = now
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, k := range kinds {
		slices.Sort(k.all)
		b.ReportMetric(float64(at(k.all, 50).Microseconds()), "µs-p50-"+k.name)
		b.ReportMetric(float64(at(k.all, 99).Microseconds()), "µs-p99-"+k.name)
	}
	for of, values := range ratios {
		slices.Sort(values)
		b.ReportMetric(at(values, 50), of)
	}
	if n := r.metric("pgpilot_classifier_quarantine_entries"); n < 2 {
		b.Fatal("nothing has ended a parser process")
	}
}

// at gives a percentile of what is sorted.
func at[T any](sorted []T, percent int) T { return sorted[len(sorted)*percent/100] }

// BenchmarkMiss measures what a statement of a template that nobody has seen costs its
// client more than one that is known, one after the other. On a machine that has other
// work the least medians of short whiles say most.
func BenchmarkMiss(b *testing.B) {
	const while = 25 // pairs
	r := newRig(b, newCluster(b), nil)
	c := r.connect()
	var known, fresh, all, leastKnown, leastFresh []time.Duration
	timed := func(text string) time.Duration {
		start := time.Now()
		c.must(text)
		return time.Since(start)
	}
	timed("SELECT 1 AS known")
	for n := 0; b.Loop(); n++ {
		known = append(known, timed("SELECT 1 AS known"))
		fresh = append(fresh, timed(fmt.Sprintf("SELECT 1 AS fresh%d", n)))
		if len(known) == while {
			slices.Sort(known)
			slices.Sort(fresh)
			leastKnown, leastFresh = append(leastKnown, at(known, 50)), append(leastFresh, at(fresh, 50))
			for i := range known {
				all = append(all, fresh[i]-known[i])
			}
			known, fresh = known[:0], fresh[:0]
		}
	}
	if len(all) == 0 {
		return // too few, as in the benchmark's first tries
	}
	slices.Sort(all)
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(micros(slices.Min(leastKnown)), "µs-known-least")
	b.ReportMetric(micros(slices.Min(leastFresh)), "µs-fresh-least")
	b.ReportMetric(micros(slices.Min(leastFresh)-slices.Min(leastKnown)), "µs-miss-least")
	b.ReportMetric(micros(at(all, 50)), "µs-miss-all")
}
