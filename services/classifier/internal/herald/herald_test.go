package herald

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/clerk"
)

type publisher func(subject string, data []byte) error

func (p publisher) Publish(subject string, data []byte) error { return p(subject, data) }

func start(t *testing.T) *Herald {
	t.Helper()
	h, err := New(prometheus.NewRegistry(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *Herald) count(result string) float64 {
	return testutil.ToFloat64(h.published.WithLabelValues(result))
}

func TestVerdictsGoToTheirSubject(t *testing.T) {
	h := start(t)
	h.Announce("my db", sqltoken.Key{1}, verdict.Verdict{Kind: verdict.Read}, clerk.About{Statement: "SELECT $1"})
	ctx, cancel := context.WithCancel(t.Context())
	var subject string
	var m bus.Verdict
	h.Run(ctx, publisher(func(s string, data []byte) (err error) {
		defer cancel()
		subject = s
		m, err = bus.Decode[bus.Verdict](data)
		return err
	}))
	if subject != "pgpilot.verdict.my_db" || m.Database != "my db" || m.Kind != "read" {
		t.Fatalf("published %+v on %s", m, subject)
	}
	if n := h.count("published"); n != 1 {
		t.Fatalf("counted %v", n)
	}
}

func TestWithoutABusVerdictsAreDropped(t *testing.T) {
	h := start(t)
	for i := range waiting + 7 {
		h.Announce("a", sqltoken.Key{byte(i)}, verdict.Verdict{}, clerk.About{})
	}
	if n := h.count("dropped"); n != 7 {
		t.Fatalf("dropped %v, want 7", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	n := 0
	wg.Go(func() {
		h.Run(ctx, publisher(func(string, []byte) error {
			if n++; n == waiting {
				cancel()
			}
			if n%2 == 0 {
				return errors.New("broken")
			}
			return nats.ErrReconnectBufExceeded
		}))
	})
	wg.Wait()
	if off, failed := h.count("offline"), h.count("failed"); off != waiting/2 || failed != waiting/2 {
		t.Fatalf("offline %v, failed %v", off, failed)
	}
}

// A flush is published when the bus is back, the last of each database.
func TestFlushesAreKeptUntilTheyArePublished(t *testing.T) {
	h := start(t)
	h.Flush("a", 5)
	h.Flush("a", 7)
	h.Flush("a", 6)
	ctx, cancel := context.WithCancel(t.Context())
	var published []bus.Flush
	failures := 0
	h.Run(ctx, publisher(func(subject string, data []byte) error {
		if failures++; failures < 4 {
			return nats.ErrReconnectBufExceeded
		}
		if subject != bus.SubjectVerdictFlush {
			t.Errorf("published on %s", subject)
		}
		m, err := bus.Decode[bus.Flush](data)
		published = append(published, m)
		cancel()
		return err
	}))
	if len(published) != 1 || published[0].Database != "a" || published[0].Generation != 7 {
		t.Fatalf("published %+v", published)
	}
}
