package cluster

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/bus"
)

// Collector shows the last messages as metrics, when they are asked for.
type Collector struct {
	snapshot                                                            func() bus.LagSnapshot
	diverged, superseded                                                func() []bus.Lag
	healthy, lagBytes, lagSecs, divergedDesc, supersededDesc, receiving *prometheus.Desc
}

// NewCollector takes the functions that give the last messages, and those of the
// replicas that have diverged and of the primaries that are superseded.
func NewCollector(snapshot func() bus.LagSnapshot, diverged, superseded func() []bus.Lag) *Collector {
	return &Collector{
		snapshot:   snapshot,
		diverged:   diverged,
		superseded: superseded,
		receiving: prometheus.NewDesc("pgpilot_backend_receiving",
			"1 for a replica that was being streamed to when it was polled last, 0 for one that was not. Absent for all others.", []string{"backend"}, nil),
		supersededDesc: prometheus.NewDesc("pgpilot_backend_superseded",
			"1 for a server that answers as a primary although another was promoted in its place; nothing is written to it. Absent for all others.", []string{"backend"}, nil),
		healthy: prometheus.NewDesc("pgpilot_backend_healthy",
			"1 if the server answers polls, has not left the primary's history and is not a former primary in whose place another was promoted, 0 if not.", []string{"backend", "role"}, nil),
		lagBytes: prometheus.NewDesc("pgpilot_backend_lag_bytes",
			"WAL bytes between the primary's insert position and what the server has replayed. Absent while unknown.", []string{"backend"}, nil),
		divergedDesc: prometheus.NewDesc("pgpilot_backend_diverged",
			"1 for a replica that has replayed what the primary never had, or is of another database cluster, and must be rebuilt. Absent for all others.", []string{"backend"}, nil),
		lagSecs: prometheus.NewDesc("pgpilot_backend_lag_seconds",
			"How old the newest sample of the primary is that the server has replayed. Absent while unknown.", []string{"backend"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.healthy
	ch <- c.lagBytes
	ch <- c.lagSecs
	ch <- c.divergedDesc
	ch <- c.supersededDesc
	ch <- c.receiving
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	superseded := map[string]bool{}
	for _, l := range c.superseded() {
		superseded[l.Backend] = true
		ch <- prometheus.MustNewConstMetric(c.supersededDesc, prometheus.GaugeValue, 1, l.Backend)
	}
	for _, l := range c.snapshot().Backends {
		healthy := 0.0
		if l.Healthy && !superseded[l.Backend] {
			healthy = 1
		}
		ch <- prometheus.MustNewConstMetric(c.healthy, prometheus.GaugeValue, healthy, l.Backend, string(l.Role))
		if l.Role == bus.Replica {
			receiving := 0.0
			if l.Receiving {
				receiving = 1
			}
			ch <- prometheus.MustNewConstMetric(c.receiving, prometheus.GaugeValue, receiving, l.Backend)
		}
		if l.LagBytes >= 0 {
			ch <- prometheus.MustNewConstMetric(c.lagBytes, prometheus.GaugeValue, float64(l.LagBytes), l.Backend)
		}
		if l.LagMillis >= 0 {
			ch <- prometheus.MustNewConstMetric(c.lagSecs, prometheus.GaugeValue, l.LagMillis/1000, l.Backend)
		}
	}
	for _, l := range c.diverged() {
		ch <- prometheus.MustNewConstMetric(c.divergedDesc, prometheus.GaugeValue, 1, l.Backend)
	}
}
