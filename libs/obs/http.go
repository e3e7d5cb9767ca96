package obs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// headerTimeout bounds how long a client may take to say what it wants.
	headerTimeout = 5 * time.Second
	// drainTimeout bounds how long requests in progress may hold up a shutdown; a
	// running profile is the only one that takes longer than a moment.
	drainTimeout = 2 * time.Second
)

// Handler serves /healthz (200 as long as the process answers), /readyz,
// /metrics and, if asked for, /debug/pprof.
func Handler(reg *prometheus.Registry, health *Health, withPprof bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // fails only when the client is gone
	})
	mux.Handle("GET /readyz", health)
	// Not compressed: it does not leave the machine as it is, and each page would take a
	// megabyte of the heap to save a few kilobytes.
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg, DisableCompression: true}))
	if withPprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// Serve answers requests on l until ctx ends, then finishes those in progress
// within two seconds. It closes l and returns nil when it ended with ctx.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve http on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err := srv.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close() // cuts a profile short rather than the shutdown
	}
	<-served
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("stop http on %s: %w", l.Addr(), err)
	}
	return nil
}
