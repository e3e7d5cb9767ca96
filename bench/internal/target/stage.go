package target

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/pgpilot/pgpilot/bench/internal/workload"
	"github.com/pgpilot/pgpilot/libs/lab"
)

const (
	replicas = 2
	// serverLimit is max_connections of the servers.
	serverLimit = 700
	// perClient is the most clients of which each has a connection of its own, to leave
	// room for the connections that other targets keep.
	perClient = 256
	// mostClients is how many clients the poolers allow.
	mostClients = 20000
)

// Settings of a Stage.
type Settings struct {
	// BinDir has pgpilot's programs.
	BinDir string
	// Scale is how many hundred thousand accounts there are.
	Scale int
	// Connections is how many connections a target may have to servers.
	Connections int
	// Logger receives progress.
	Logger *slog.Logger
}

// Stage is what all targets share.
type Stage struct {
	Settings
	// Lab is the cluster.
	Lab *lab.Cluster
	dir string
	// postmasters are the pids of the servers.
	postmasters []int
	programs    programs
}

// Build starts the cluster and fills it. The caller closes the stage.
func Build(ctx context.Context, o Settings) (_ *Stage, err error) {
	sweep(ctx, os.TempDir(), o.Logger)
	dir, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("create the folder of the benchmark: %w", err)
	}
	// Other users' programs read their configurations there.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open the folder of the benchmark: %w", err)
	}
	s := &Stage{Settings: o, dir: dir, programs: findPrograms(ctx)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	o.Logger.Info("starting a primary and two replicas")
	// What is compared is what stands between clients and servers, not the disk.
	if s.Lab, err = lab.Start(ctx, lab.Options{Dir: filepath.Join(dir, labFolder), Replicas: replicas, FastUnsafe: true}); err != nil {
		return nil, err
	}
	if err := s.widen(ctx); err != nil {
		return nil, err
	}
	if err := s.fill(ctx); err != nil {
		return nil, err
	}
	for _, m := range s.Lab.Status(ctx) {
		if m.PID == 0 {
			return nil, fmt.Errorf("%s does not run: its log says why", m.Member.Name)
		}
		s.postmasters = append(s.postmasters, m.PID)
	}
	return s, nil
}

// Close stops the cluster and removes all files. Targets must be stopped before.
func (s *Stage) Close(ctx context.Context) error {
	var err error
	if s.Lab != nil {
		err = s.Lab.Close(ctx)
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Postmasters are the pids of the servers' first processes.
func (s *Stage) Postmasters() []int { return s.postmasters }

// widen lets the servers take as many connections as the matrix needs. A replica must
// allow no fewer than its primary, so the replicas go first.
func (s *Stage) widen(ctx context.Context) error {
	for _, m := range append(s.Lab.Replicas(), s.Lab.Primary()) {
		err := s.execute(ctx, m,
			fmt.Sprintf("ALTER SYSTEM SET max_connections = %d", serverLimit),
			"ALTER SYSTEM SET shared_buffers = '256MB'",
			"ALTER SYSTEM SET max_wal_size = '4GB'")
		if err != nil {
			return err
		}
		if err := m.Stop(ctx); err != nil {
			return err
		}
		if err := m.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// execute runs statements as the superuser.
func (s *Stage) execute(ctx context.Context, m *lab.Member, statements ...string) error {
	conn, err := pgx.Connect(ctx, m.SuperDSN())
	if err != nil {
		return fmt.Errorf("connect to %s: %w", m.Name, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("execute %q on %s: %w", statement, m.Name, err)
		}
	}
	return nil
}

func (s *Stage) fill(ctx context.Context) error {
	s.Logger.Info("filling the database", "accounts", workload.Rows(s.Scale))
	conn, err := pgx.Connect(ctx, s.Lab.Primary().DSN())
	if err != nil {
		return fmt.Errorf("connect to the primary: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := workload.Fill(ctx, conn, s.Scale); err != nil {
		return err
	}
	if err := s.execute(ctx, s.Lab.Primary(), "CHECKPOINT"); err != nil {
		return err
	}
	return s.Lab.WaitCaughtUp(ctx)
}

// Supports says whether a target can do what a case asks, and why not.
func (s *Stage) Supports(spec Spec, d Demand) (bool, string) {
	if spec.oneEach() && d.Clients+d.Idle > perClient {
		return false, fmt.Sprintf("needs a server connection for each of %d clients", d.Clients+d.Idle)
	}
	switch spec.Kind {
	case PgBouncer:
		if s.programs.pgbouncer == "" {
			return false, "PgBouncer is not installed"
		}
		if spec.Pool != "session" && d.Protocol.Prepares() && !s.programs.bouncerPrepares {
			return false, "this PgBouncer has no prepared statements in transaction mode"
		}
	case Pgpool:
		if s.programs.pgpool == "" {
			return false, "pgpool-II is not installed"
		}
	}
	return true, ""
}

// ServerConnections counts the clients' connections that the servers have.
func (s *Stage) ServerConnections(ctx context.Context) (int, error) {
	sum := 0
	for _, m := range s.Lab.Members() {
		conn, err := pgx.Connect(ctx, m.SuperDSN())
		if err != nil {
			return 0, fmt.Errorf("connect to %s: %w", m.Name, err)
		}
		var n int
		err = conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()").Scan(&n)
		_ = conn.Close(ctx)
		if err != nil {
			return 0, fmt.Errorf("count the connections of %s: %w", m.Name, err)
		}
		sum += n
	}
	return sum, nil
}

// programs are the other products that are installed.
type programs struct {
	pgbouncer, pgpool string
	bouncerPrepares   bool
}

func findPrograms(ctx context.Context) programs {
	p := programs{pgbouncer: find(bouncerProgram), pgpool: find(pgpoolProgram)}
	p.bouncerPrepares = p.pgbouncer != "" && atLeast(versionOf(ctx, p.pgbouncer), 1, 21)
	return p
}

// find looks for a program on the path and where Debian puts servers.
func find(name string) string {
	for _, candidate := range []string{name, filepath.Join("/usr/sbin", name)} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	return ""
}
