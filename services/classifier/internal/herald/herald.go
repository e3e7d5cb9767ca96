package herald

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// waiting bounds the verdicts that are not yet published.
const waiting = 1024

// Publisher is the bus's connection.
type Publisher interface {
	Publish(subject string, data []byte) error
}

// Herald publishes verdicts. Announce is safe for concurrent use.
type Herald struct {
	queue chan bus.Verdict
	log   *slog.Logger
	// published counts by what became of the verdict.
	published *prometheus.CounterVec
}

// New gives a Herald whose metrics are in reg.
func New(reg prometheus.Registerer, log *slog.Logger) (*Herald, error) {
	h := &Herald{
		queue: make(chan bus.Verdict, waiting),
		log:   log,
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgpilot_classifier_published_total",
			Help: "Fresh verdicts by result: published, dropped (too many at once), offline (no bus), failed.",
		}, []string{"result"}),
	}
	if err := reg.Register(h.published); err != nil {
		return nil, fmt.Errorf("register the herald's metrics: %w", err)
	}
	return h, nil
}

// Announce leaves a verdict to be published. It does not block.
func (h *Herald) Announce(database string, key sqltoken.Key, v verdict.Verdict) {
	select {
	case h.queue <- v.Message(database, key):
	default:
		h.published.WithLabelValues("dropped").Inc()
	}
}

// Run publishes to the bus until ctx ends.
func (h *Herald) Run(ctx context.Context, to Publisher) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-h.queue:
			h.published.WithLabelValues(h.publish(to, m)).Inc()
		}
	}
}

func (h *Herald) publish(to Publisher, m bus.Verdict) (result string) {
	data, err := bus.Encode(m)
	if err == nil {
		err = to.Publish(bus.SubjectVerdict+bus.SafeName(m.Database), data)
	}
	switch {
	case err == nil:
		return "published"
	case bus.Offline(err):
		return "offline"
	}
	h.log.Warn("a verdict was not published", obs.KeyDatabase, m.Database, obs.KeyError, err)
	return "failed"
}
