package herald

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/clerk"
)

// waiting bounds the verdicts that are not yet published.
const waiting = 1024

// publishAgain is the pause before flushes are tried again.
const publishAgain = 100 * time.Millisecond

// Publisher is the bus's connection.
type Publisher interface {
	Publish(subject string, data []byte) error
}

// Herald publishes verdicts and flushes. Announce and Flush are safe for
// concurrent use.
type Herald struct {
	queue chan bus.Verdict
	// flushed tells Run that there are flushes.
	flushed chan struct{}
	log     *slog.Logger
	// published counts by what became of the verdict.
	published *prometheus.CounterVec

	mu sync.Mutex
	// flushes to be published: the last of each database; guarded by mu.
	flushes map[string]uint64
}

// New gives a Herald whose metrics are in reg.
func New(reg prometheus.Registerer, log *slog.Logger) (*Herald, error) {
	h := &Herald{
		queue:   make(chan bus.Verdict, waiting),
		flushed: make(chan struct{}, 1),
		flushes: make(map[string]uint64),
		log:     log,
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
func (h *Herald) Announce(database string, key sqltoken.Key, v verdict.Verdict, about clerk.About) {
	m := v.Message(database, key)
	m.Statement, m.Reads, m.Writes = about.Statement, about.Names.Reads, about.Names.Writes
	m.Calls, m.Locks = about.Names.Calls, about.Names.Locks
	select {
	case h.queue <- m:
	default:
		h.published.WithLabelValues("dropped").Inc()
	}
}

// Flush leaves a flush to be published. It does not block. Its place among the
// verdicts does not matter, since these carry their generation.
func (h *Herald) Flush(database string, generation uint64) {
	h.mu.Lock()
	h.flushes[database] = max(h.flushes[database], generation)
	h.mu.Unlock()
	h.wake()
}

func (h *Herald) wake() {
	select {
	case h.flushed <- struct{}{}:
	default:
	}
}

// Run publishes to the bus until ctx ends.
func (h *Herald) Run(ctx context.Context, to Publisher) {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-h.queue:
			h.published.WithLabelValues(h.publish(to, m)).Inc()
			continue
		case <-h.flushed:
		case <-again.C:
		}
		if !h.publishFlushes(to) {
			again.Reset(publishAgain)
		}
	}
}

// publishFlushes reports whether none is left.
func (h *Herald) publishFlushes(to Publisher) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for database, generation := range h.flushes {
		data, err := bus.Encode(bus.Flush{V: bus.Version, Database: database, Generation: generation})
		if err == nil {
			err = to.Publish(bus.SubjectVerdictFlush, data)
		}
		if err != nil {
			if !bus.Offline(err) {
				h.log.Warn("a flush was not published, trying again", obs.KeyDatabase, database, obs.KeyError, err)
			}
			return false
		}
		delete(h.flushes, database)
	}
	return true
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

var _ Publisher = (*nats.Conn)(nil)
