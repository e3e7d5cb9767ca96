package parse

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of a Pool.
type Metrics struct {
	workers  prometheus.Gauge
	ends     *prometheus.CounterVec
	failures prometheus.Counter
	busy     prometheus.Counter
}

// NewMetrics registers them. Once per registry.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		workers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pgpilot_classifier_workers",
			Help: "Parser processes that run.",
		}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgpilot_classifier_workers_ended_total",
			Help: "Parser processes that ended, by cause: crash, hang, memory (each the doing of a statement), lost (killed or stopped from outside), worn (replaced after many statements or with much memory).",
		}, []string{"cause"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgpilot_classifier_worker_start_failures_total",
			Help: "Parser processes that did not start.",
		}),
		busy: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgpilot_classifier_busy_total",
			Help: "Statements that found no free parser process in time; each counts as a write until it is asked about again.",
		}),
	}
	for _, cause := range []string{"crash", "hang", "memory", "lost", "worn"} {
		m.ends.WithLabelValues(cause)
	}
	for _, c := range []prometheus.Collector{m.workers, m.ends, m.failures, m.busy} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the parser pool's metrics: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) ended(cause string) { m.ends.WithLabelValues(cause).Inc() }
