package cluster

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/bus"
)

// Collector shows the last messages as metrics, when they are asked for.
type Collector struct {
	snapshot                   func() bus.LagSnapshot
	healthy, lagBytes, lagSecs *prometheus.Desc
}

// NewCollector takes the function that gives the last messages.
func NewCollector(snapshot func() bus.LagSnapshot) *Collector {
	return &Collector{
		snapshot: snapshot,
		healthy: prometheus.NewDesc("pgpilot_backend_healthy",
			"1 if the server answers polls, 0 if not.", []string{"backend", "role"}, nil),
		lagBytes: prometheus.NewDesc("pgpilot_backend_lag_bytes",
			"WAL bytes between the primary's insert position and what the server has replayed. Absent while unknown.", []string{"backend"}, nil),
		lagSecs: prometheus.NewDesc("pgpilot_backend_lag_seconds",
			"How old the newest sample of the primary is that the server has replayed. Absent while unknown.", []string{"backend"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.healthy
	ch <- c.lagBytes
	ch <- c.lagSecs
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, l := range c.snapshot().Backends {
		healthy := 0.0
		if l.Healthy {
			healthy = 1
		}
		ch <- prometheus.MustNewConstMetric(c.healthy, prometheus.GaugeValue, healthy, l.Backend, string(l.Role))
		if l.LagBytes >= 0 {
			ch <- prometheus.MustNewConstMetric(c.lagBytes, prometheus.GaugeValue, float64(l.LagBytes), l.Backend)
		}
		if l.LagMillis >= 0 {
			ch <- prometheus.MustNewConstMetric(c.lagSecs, prometheus.GaugeValue, l.LagMillis/1000, l.Backend)
		}
	}
}
