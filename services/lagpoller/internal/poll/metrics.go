package poll

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of polling.
type Metrics struct {
	polls, errors, bursts, burstPolls *prometheus.CounterVec
}

// NewMetrics registers them.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"backend"})
	}
	m := &Metrics{
		polls:      counter("pgpilot_polls_total", "Polls of a server outside of bursts, failed ones included."),
		errors:     counter("pgpilot_poll_errors_total", "Polls of a server that failed."),
		bursts:     counter("pgpilot_poll_bursts_total", "Times a router's want set off quick polls of a server."),
		burstPolls: counter("pgpilot_burst_polls_total", "Quick polls of a server."),
	}
	for _, c := range []prometheus.Collector{m.polls, m.errors, m.bursts, m.burstPolls} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register poll metrics: %w", err)
		}
	}
	return m, nil
}

// forget drops a backend that is no longer configured.
func (m *Metrics) forget(backend string) {
	for _, c := range []*prometheus.CounterVec{m.polls, m.errors, m.bursts, m.burstPolls} {
		c.DeleteLabelValues(backend)
	}
}
