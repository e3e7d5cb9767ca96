package catalog

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of a Library.
type Metrics struct {
	looks, flushes, failures prometheus.Counter
	readSeconds              prometheus.Histogram
	names                    *prometheus.GaugeVec
}

// NewMetrics registers them. Once per registry.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "pgpilot_classifier_catalog_" + name, Help: help})
	}
	m := &Metrics{
		looks:    counter("looks_total", "Comparisons of a catalog's fingerprint with the one before."),
		flushes:  counter("changes_total", "Changes of a catalog after which verdicts were dropped."),
		failures: counter("failures_total", "Looks at a catalog that failed."),
		readSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "pgpilot_classifier_catalog_read_seconds",
			Help:    "Time to read a whole catalog and to work out what it means.",
			Buckets: prometheus.ExponentialBuckets(5e-3, 2, 12), // 5 ms to 10 s
		}),
		names: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pgpilot_classifier_catalog_names",
			Help: "Names known of a database.",
		}, []string{"database"}),
	}
	for _, c := range []prometheus.Collector{m.looks, m.flushes, m.failures, m.readSeconds, m.names} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the catalogs' metrics: %w", err)
		}
	}
	return m, nil
}
