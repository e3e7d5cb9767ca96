package stacktest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/stack"
)

const (
	folderPrefix = "pgpilot-stacktest-"

	// Generous: a loaded machine must not fail a test that would pass.
	startTimeout = 3 * time.Minute
	closeTimeout = 2 * time.Minute

	// A folder this young may belong to a process that has not locked it yet.
	sweepAge = time.Minute
	// failedTail is how much of each log a failed test shows.
	failedTail = 40
)

// Options of [Start]. The zero value is a primary with two replicas and one instance
// of each service.
type Options struct {
	// Lab is a cluster of the caller's. Nil: one of the test's own with Replicas
	// replicas; 0 is two, [stack.None] is none.
	Lab      *lab.Cluster
	Replicas int
	// As in [stack.Options].
	Listeners, Routers, Classifiers, Lagpollers int
	// BinDir has the four programs. Empty: Programs.
	BinDir string
	// LogLevel of the services; empty is info.
	LogLevel string
	// Configure changes the configuration before it is written. It holds the lab's
	// servers, free ports on 127.0.0.1 for clients, metrics and bus, and the lab's
	// ordinary user.
	Configure func(*config.Config)
}

// Pgpilot is a running stack in front of a lab.
type Pgpilot struct {
	*stack.Stack
	Lab *lab.Cluster
	// DSN is the URL of the lab's database through pgpilot, for the lab's ordinary
	// user.
	DSN string
}

// Start runs pgpilot until the test and its subtests have finished. It returns when
// every service is ready and every replica has served a read. A failed test shows the
// end of every service's log.
func Start(t testing.TB, o Options) *Pgpilot {
	t.Helper()
	bin := o.BinDir
	if bin == "" {
		bin = Programs(t)
	}
	sweep(t)
	cluster := o.Lab
	if cluster == nil {
		cluster = labtest.Start(t, replicas(o.Replicas))
	}
	dir, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		t.Fatalf("create the stack's folder: %v", err)
	}
	cfg := Config(cluster)
	cfg.RunDir = filepath.Join(dir, "run")
	cfg.Listen, cfg.Observability.MetricsAddr, cfg.Bus.Listen = labtest.FreeAddress(t), labtest.FreeAddress(t), labtest.FreeAddress(t)
	if o.Configure != nil {
		o.Configure(cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := stack.Start(ctx, stack.Options{
		Dir: dir, BinDir: bin, Config: cfg, LogLevel: o.LogLevel,
		Listeners: o.Listeners, Routers: o.Routers, Classifiers: o.Classifiers, Lagpollers: o.Lagpollers,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatalf("start pgpilot: %v", err)
	}
	t.Cleanup(func() { stop(t, s) })
	p := &Pgpilot{Stack: s, Lab: cluster}
	if p.DSN, err = s.DSN(lab.User, lab.Password, lab.Database); err != nil {
		t.Fatal(err)
	}
	if o.Listeners != stack.None && o.Routers != stack.None && o.Lagpollers != stack.None && !cfg.Routing.AllToPrimary {
		if err := s.WaitReplicas(ctx, p.DSN); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Connect opens a session through pgpilot that speaks the simple query protocol, and
// closes it with the test.
func (p *Pgpilot) Connect(t testing.TB) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(p.DSN)
	if err != nil {
		t.Fatal(err)
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatalf("connect through pgpilot: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = conn.Close(ctx) // the test may have ended the other side
	})
	return conn
}

// Config is a configuration for the lab's servers, under their names, that leaves
// the addresses and the run directory to the caller.
func Config(c *lab.Cluster) *config.Config {
	cfg := config.Default()
	for _, m := range c.Members() {
		b := config.Backend{Name: m.Name, Address: fmt.Sprintf("%s:%d", m.Host, m.Port)}
		if m == c.Primary() {
			cfg.Primary = b
		} else {
			cfg.Replicas = append(cfg.Replicas, b)
		}
	}
	cfg.Users = []config.User{{Name: lab.User, Password: lab.Password}}
	cfg.Monitor = config.Monitor{User: lab.User, Password: lab.Password, Database: lab.Database}
	cfg.Observability.Pprof = true
	return cfg
}

func replicas(n int) int {
	switch n {
	case 0:
		return 2
	case stack.None:
		return 0
	}
	return n
}

func stop(t testing.TB, s *stack.Stack) {
	if t.Failed() {
		for _, p := range s.Processes() {
			t.Logf("end of the log of %s:\n%s", p.Name(), p.LogTail(failedTail))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close pgpilot: %v", err)
	}
}

// sweep removes what killed test processes left behind: folders whose lock is free.
func sweep(t testing.TB) {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	if err != nil {
		t.Fatalf("look for abandoned stacks: %v", err)
	}
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), closeTimeout)
		// What can not be removed, another user's for example, is none of this test's business.
		if closed, err := stack.CloseAbandoned(ctx, dir); closed && err == nil {
			t.Logf("removed the stack a killed test left in %s", dir)
		}
		cancel()
	}
}
