package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// drainTimeout bounds how long a router that does not take its answers may hold
// up the end.
const drainTimeout = 2 * time.Second

// Clerk finds verdicts.
type Clerk interface {
	// Recall gives a known verdict. It does not block.
	Recall(*verdict.Request) (verdict.Verdict, bool)
	// Decide finds one that is not known. An error says that there is none this time.
	Decide(*verdict.Request) (verdict.Verdict, error)
}

// Server answers routers.
type Server struct {
	clerk   Clerk
	maxText atomic.Int64
	// long is how many bytes of long texts are being judged, or wait for it.
	long    atomic.Int64
	log     *slog.Logger
	metrics metrics
}

type metrics struct {
	requests    prometheus.Counter
	tooLong     prometheus.Counter
	unjudged    prometheus.Counter
	foreign     prometheus.Counter
	connections prometheus.Gauge
}

// New gives a Server that judges texts of up to maxText bytes (classify.max_text)
// and calls longer ones writes.
func New(clerk Clerk, maxText int, reg prometheus.Registerer, log *slog.Logger) (*Server, error) {
	s := &Server{clerk: clerk, log: log, metrics: metrics{
		requests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgpilot_classifier_requests_total",
			Help: "Statements that routers asked about.",
		}),
		tooLong: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgpilot_classifier_too_long_total",
			Help: "Statements longer than classify.max_text, answered without a look.",
		}),
		unjudged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgpilot_classifier_unjudged_total",
			Help: "Statements answered without a verdict, for no fault of their own.",
		}),
		foreign: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgpilot_classifier_foreign_requests_total",
			Help: "Statements answered without a verdict because the router is of a version that is not understood.",
		}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pgpilot_classifier_connections",
			Help: "Connected routers.",
		}),
	}}
	s.SetMaxText(maxText)
	for _, c := range []prometheus.Collector{s.metrics.requests, s.metrics.tooLong, s.metrics.unjudged, s.metrics.foreign, s.metrics.connections} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the server's metrics: %w", err)
		}
	}
	return s, nil
}

// SetMaxText changes the longest text that is judged, for new connections.
func (s *Server) SetMaxText(n int) { s.maxText.Store(int64(n)) }

// makeRoom counts a text of size bytes if it is long, and gives by how much. There is no room
// where too much waits already: it is answered without a verdict then.
func (s *Server) makeRoom(size int) (long int64, ok bool) {
	if size < longText {
		return 0, true
	}
	long = int64(size)
	if s.long.Add(long) > max(maxLong, long) {
		s.long.Add(-long)
		return 0, false
	}
	return long, true
}

// Serve accepts routers until ctx ends, then answers what it has read. It closes l.
func (s *Server) Serve(ctx context.Context, l *rundir.Socket) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	unhook := context.AfterFunc(ctx, func() { l.Close() })
	defer func() {
		if unhook() {
			l.Close()
		}
	}()
	for {
		c, err := l.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept routers: %w", err)
		case err != nil:
			// Out of descriptors, most likely: those there are go on being served.
			s.log.Error("cannot accept a router, trying again", obs.KeyError, err)
			pause(ctx, acceptPause)
			continue
		}
		if err := rundir.CheckPeer(c); err != nil {
			s.log.Warn("refused a connection", obs.KeyError, err)
			c.Close()
			continue
		}
		conns.Go(func() { s.serve(ctx, c) })
	}
}

const acceptPause = 100 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
