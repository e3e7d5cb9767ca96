package clerk

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of a Clerk.
type Metrics struct {
	reg     prometheus.Registerer
	hits    prometheus.Counter
	misses  prometheus.Counter
	evicted prometheus.Counter
	flushes prometheus.Counter
	learned prometheus.Counter
	panics  prometheus.Counter
	judged  *prometheus.CounterVec
	seconds prometheus.Histogram
}

// NewMetrics registers them. Once per registry.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "pgpilot_classifier_" + name, Help: help})
	}
	m := &Metrics{
		reg:     reg,
		hits:    counter("cache_hits_total", "Requests answered from the verdict cache."),
		misses:  counter("cache_misses_total", "Requests whose verdict was not in the cache."),
		evicted: counter("cache_evicted_total", "Verdicts dropped from the cache to make room."),
		flushes: counter("cache_flushes_total", "Times the verdicts of a database were forgotten because they no longer held."),
		learned: counter("cache_learned_total", "Verdicts taken over from another classifier."),
		panics:  counter("judge_panics_total", "Statements that made the judge panic; each counts as a write."),
		judged: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgpilot_classifier_judged_total",
			Help: "Statements judged, by kind (read, write).",
		}, []string{"kind"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "pgpilot_classifier_judge_seconds",
			Help:    "Time to parse and judge a statement.",
			Buckets: prometheus.ExponentialBuckets(20e-6, 2.5, 14), // 20 µs to 3 s
		}),
	}
	for _, c := range []prometheus.Collector{m.hits, m.misses, m.evicted, m.flushes, m.learned, m.panics, m.judged, m.seconds} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the verdict cache's metrics: %w", err)
		}
	}
	return m, nil
}

// entryBytes is the memory of one remembered verdict without its detail: its place in the
// cache's list and map. A test holds it against what the runtime says.
const entryBytes = 240

// size reports the size of the one cache there is.
func (m *Metrics) size(of func() (n, bytes int)) error {
	for _, g := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pgpilot_classifier_cache_entries",
			Help: "Verdicts in the cache.",
		}, func() float64 { n, _ := of(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pgpilot_classifier_cache_bytes",
			Help: "Memory of the verdict cache, estimated.",
		}, func() float64 { _, bytes := of(); return float64(bytes) }),
	} {
		if err := m.reg.Register(g); err != nil {
			return fmt.Errorf("register the verdict cache's metrics: %w", err)
		}
	}
	return nil
}
