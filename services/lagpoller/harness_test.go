package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
)

// patience bounds every wait; generous, since a loaded machine must not fail a
// test that would pass.
const patience = 60 * time.Second

// lagpoller is the service running in this process.
type lagpoller struct {
	dir     *rundir.Dir
	health  *obs.Health
	metrics *prometheus.Registry
	reloads chan *config.Config
	log     journal
	stop    func()
}

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// count gives how often the log has the text.
func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), text)
}

func runDir(t *testing.T) *rundir.Dir {
	t.Helper()
	p, err := os.MkdirTemp("", "lp") // short: socket paths are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(p) })
	d, err := rundir.Open(filepath.Join(p, "run"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// configure watches the lab's members, by their names, quickly.
func configure(c *lab.Cluster) *config.Config {
	cfg := config.Default()
	cfg.Bus.Listen = ""
	cfg.Monitor = config.Monitor{User: lab.User, Password: lab.Password, Database: lab.Database}
	cfg.Health.Interval = config.Duration(20 * time.Millisecond)
	cfg.Health.BaseBackoff, cfg.Health.MaxBackoff = config.Duration(20*time.Millisecond), config.Duration(100*time.Millisecond)
	cfg.Health.Timeout = config.Duration(10 * time.Second)
	for i, m := range c.Members() {
		b := config.Backend{Name: m.Name, Address: fmt.Sprintf("%s:%d", m.Host, m.Port)}
		if i == 0 {
			cfg.Primary = b
			continue
		}
		cfg.Replicas = append(cfg.Replicas, b)
	}
	return cfg
}

// start runs the service until the test ends or stop is called, and waits until
// it is ready.
func start(t *testing.T, d *rundir.Dir, cfg *config.Config) *lagpoller {
	t.Helper()
	return startAs(t, d, "1", cfg)
}

// startAs is start for one of several in a run directory.
func startAs(t *testing.T, d *rundir.Dir, id string, cfg *config.Config) *lagpoller {
	t.Helper()
	claim, err := d.Claim(rundir.Lagpoller, id)
	if err != nil {
		t.Fatal(err)
	}
	lp := &lagpoller{dir: d, health: obs.NewHealth(), metrics: obs.NewRegistry("test"), reloads: make(chan *config.Config, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- serve(ctx, &service.Env{
			Config: cfg, Reloads: lp.reloads, Log: slog.New(slog.NewTextHandler(&lp.log, nil)),
			Dir: d, Claim: claim, Metrics: lp.metrics, Health: lp.health, Version: "test",
		})
	}()
	stopped := false
	lp.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		if err := claim.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(lp.stop)
	select {
	case <-lp.health.Started():
	case err := <-done:
		done <- nil
		t.Fatalf("serve: %v", err)
	case <-time.After(patience):
		t.Fatalf("not ready: %+v", lp.health.Report())
	}
	return lp
}

func (lp *lagpoller) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := lp.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// ear listens on the bus as a service would.
type ear struct {
	nc       *nats.Conn
	lags     sync.Map // by backend: chan bus.Lag
	topology chan bus.Topology
}

// heard holds what was said and not yet looked at, more than any test waits for.
const heard = 1 << 13

func (e *ear) about(backend string) chan bus.Lag {
	ch, ok := e.lags.Load(backend)
	if !ok {
		ch, _ = e.lags.LoadOrStore(backend, make(chan bus.Lag, heard))
	}
	return ch.(chan bus.Lag)
}

func listen(t *testing.T, d *rundir.Dir) *ear { return listenOn(t, d, config.Bus{}) }

func listenOn(t *testing.T, d *rundir.Dir, b config.Bus) *ear {
	t.Helper()
	nc, err := bus.Connect(t.Context(), d, bus.Options{Name: "ear", Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Bus: b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	e := &ear{nc: nc, topology: make(chan bus.Topology, heard)}
	if _, err := bus.Subscribe(nc, bus.SubjectLag+"*", nil, func(l bus.Lag) { e.about(l.Backend) <- l }); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Subscribe(nc, bus.SubjectTopology, nil, func(m bus.Topology) { e.topology <- m }); err != nil {
		t.Fatal(err)
	}
	if nc.IsConnected() {
		if err := nc.FlushTimeout(patience); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// lag waits for news of a backend that fits, passing over what was said before.
func (e *ear) lag(t *testing.T, backend, what string, fits func(bus.Lag) bool) bus.Lag {
	t.Helper()
	deadline := time.After(patience)
	var last bus.Lag
	for {
		select {
		case l := <-e.about(backend):
			if last = l; fits(l) {
				return l
			}
		case <-deadline:
			t.Fatalf("%s: no news of %s within %v, last %+v", what, backend, patience, last)
		}
	}
}

// shape waits for a topology that fits.
func (e *ear) shape(t *testing.T, what string, fits func(bus.Topology) bool) bus.Topology {
	t.Helper()
	deadline := time.After(patience)
	var last bus.Topology
	for {
		select {
		case m := <-e.topology:
			if last = m; fits(m) {
				return m
			}
		case <-deadline:
			t.Fatalf("%s: no such topology within %v, last %+v", what, patience, last)
		}
	}
}

func healthy(l bus.Lag) bool { return l.Healthy && l.Error == "" }

// caughtUp is a replica at the primary's position.
func caughtUp(l bus.Lag) bool { return healthy(l) && l.LagBytes == 0 && l.LagMillis >= 0 }

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// occupy takes every replication slot of a server that is free, so that it
// refuses more.
func occupy(t *testing.T, dsn string) (taken []*pgconn.PgConn) {
	t.Helper()
	cfg, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["replication"] = "database"
	for {
		c, err := pgconn.ConnectConfig(t.Context(), cfg)
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == "53300" {
			return taken
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		taken = append(taken, c)
	}
}

func execute(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// write makes WAL on a primary and gives a position at or after its end.
func write(t *testing.T, c *pgx.Conn) lsn.LSN {
	t.Helper()
	execute(t, c, "SELECT pg_logical_emit_message(true, 'test', repeat('x', 100000))")
	return ask(t, c, "SELECT pg_current_wal_flush_lsn()::text")
}

func ask(t *testing.T, c *pgx.Conn, sql string) lsn.LSN {
	t.Helper()
	var text string
	if err := c.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	l, err := lsn.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
