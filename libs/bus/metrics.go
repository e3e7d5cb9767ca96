package bus

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of one process's use of the bus. A nil *Metrics counts nothing.
type Metrics struct {
	connected prometheus.Gauge
	connects  prometheus.Counter
	ignored   *prometheus.CounterVec
}

// NewMetrics registers them. Once per registry.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pgpilot_bus_connected",
			Help: "1 while this service is connected to the bus.",
		}),
		connects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgpilot_bus_connects_total",
			Help: "Times this service found the bus, the first time included.",
		}),
		ignored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgpilot_bus_messages_ignored_total",
			Help: "Messages ignored, by subject and reason (version, broken).",
		}, []string{"subject", "reason"}),
	}
	for _, c := range []prometheus.Collector{m.connected, m.connects, m.ignored} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register bus metrics: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) connection(up bool) {
	if m == nil {
		return
	}
	if up {
		m.connected.Set(1)
		m.connects.Inc()
		return
	}
	m.connected.Set(0)
}

// Ignore counts a message on a subject that was read but not understood, because of
// err: of another version (ErrVersion), or broken.
func (m *Metrics) Ignore(subject string, err error) { m.ignore(subject, err) }

func (m *Metrics) ignore(subject string, err error) {
	if m == nil {
		return
	}
	reason := "broken"
	if errors.Is(err, ErrVersion) {
		reason = "version"
	}
	m.ignored.WithLabelValues(subject, reason).Inc()
}
