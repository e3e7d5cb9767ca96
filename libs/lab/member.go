package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// superUser is the role initdb creates.
const superUser = "postgres"

// Member is one server of a [Cluster]. Its methods may be called from several goroutines, but Start, Stop
// and Kill of one member only one at a time.
type Member struct {
	Number int    // 0 is the first primary, 1.. the replicas
	Name   string // "primary", "replica1", ...; stays after a promotion
	Host   string // loopback IPv4 address
	Port   int

	cluster *Cluster

	mu      sync.Mutex
	child   *child // the server, if this process started it
	preload string
}

// Preload makes the next starts of the server load a shared library first (ld.so(8), LD_PRELOAD), to lie to
// it about the time for example. Empty: none. The library must be readable for the server's OS user.
func (m *Member) Preload(library string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.preload = library
}

func newMember(c *Cluster, number, port int) *Member {
	name := "primary"
	if number > 0 {
		name = fmt.Sprintf("replica%d", number)
	}
	return &Member{Number: number, Name: name, Host: "127.0.0.1", Port: port, cluster: c}
}

// DSN is the URL of [Database] on this member for the ordinary role [User].
func (m *Member) DSN() string { return dsn(m.Host, m.Port, User, Password, Database) }

// DSNFor is the URL of any database on this member for any role.
func (m *Member) DSNFor(user, password, database string) string {
	return dsn(m.Host, m.Port, user, password, database)
}

// SuperDSN is the URL of [Database] on this member for the superuser.
func (m *Member) SuperDSN() string {
	return dsn(m.Host, m.Port, superUser, m.cluster.superPassword, Database)
}

// SocketDir is the folder of the member's Unix socket, .s.PGSQL.<Port>.
func (m *Member) SocketDir() string { return m.cluster.socketDir() }

// LogFile is the path of the server's log.
func (m *Member) LogFile() string { return filepath.Join(m.dir(), "server.log") }

func (m *Member) dir() string     { return filepath.Join(m.cluster.work, m.Name) }
func (m *Member) dataDir() string { return filepath.Join(m.dir(), "data") }

// exists says whether the member has been built completely: its folder gets its
// name last.
func (m *Member) exists() bool {
	_, err := os.Stat(m.dir())
	return err == nil
}

// control connects as superuser to the database postgres, which exists before any other.
func (m *Member) control(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, m.DSNFor(superUser, m.cluster.superPassword, "postgres"))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", m.Name, err)
	}
	return conn, nil
}

// exec runs one statement as superuser on a connection of its own.
func (m *Member) exec(ctx context.Context, sql string, args ...any) error {
	conn, err := m.control(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("run a statement on %s: %w", m.Name, err)
	}
	return nil
}

// Running says whether the member's server process exists, and its pid.
func (m *Member) Running() (pid int, ok bool) {
	pm := readPostmaster(m.dataDir())
	return pm.pid, pm.alive
}

// Start starts the server unless it is running, and returns when it accepts connections. A replica
// needs its primary for that only if its own WAL does not reach a consistent point.
func (m *Member) Start(ctx context.Context) error {
	if pid, running := m.Running(); running {
		return m.awaitReady(ctx, pid, nil)
	}
	if !m.exists() {
		return fmt.Errorf(`%s has no data folder: run "lab up"`, m.Name)
	}
	if err := awaitPort(ctx, m.Port); err != nil {
		return fmt.Errorf("start %s: %w", m.Name, err)
	}
	if err := m.writeConfig(); err != nil {
		return err
	}
	c := m.cluster
	log, err := os.OpenFile(m.LogFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", m.Name, err)
	}
	defer log.Close()
	if err := c.account.own(m.LogFile()); err != nil {
		return err
	}
	// The server's life is not bound to ctx, only the wait for it is.
	cmd := c.account.command(context.WithoutCancel(ctx), c.bin.path("postgres"), "-D", m.dataDir())
	cmd.Stdout, cmd.Stderr = log, log
	m.mu.Lock()
	if m.preload != "" {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+m.preload)
	}
	m.mu.Unlock()
	server, err := spawn(cmd, !c.detach)
	if err != nil {
		return fmt.Errorf("start %s: %w", m.Name, err)
	}
	m.mu.Lock()
	m.child = server
	m.mu.Unlock()
	c.log.Info("server starting", logMember, m.Name, logPort, m.Port, logPID, server.pid)
	return m.awaitReady(ctx, server.pid, server.exited)
}

// awaitReady returns when the server accepts connections. exited, if not nil, tells its end.
func (m *Member) awaitReady(ctx context.Context, pid int, exited <-chan struct{}) error {
	err := until(ctx, pollEvery, func() (bool, error) {
		select {
		case <-exited:
			return false, errors.New("the server ended")
		default:
		}
		pm := readPostmaster(m.dataDir())
		// Right after a crash the file may still be the one of the server before.
		if pm.pid != pid {
			return false, nil
		}
		if !pm.alive && exited == nil {
			return false, errors.New("the server ended")
		}
		if !pm.ready {
			return false, nil
		}
		return m.accepts(ctx)
	})
	if err != nil {
		return fmt.Errorf("wait for %s to accept connections: %w; end of its log %s:\n%s", m.Name, err, m.LogFile(), m.logTail())
	}
	return nil
}

// Stop shuts the server down in fast mode (SIGINT: sessions are ended, WAL is flushed
// and sent) and returns when the process is gone.
func (m *Member) Stop(ctx context.Context) error { return m.shutdown(ctx, syscall.SIGINT) }

// Kill shuts the server down in immediate mode (SIGQUIT: no checkpoint, recovery at
// the next start) and returns when the process is gone.
func (m *Member) Kill(ctx context.Context) error { return m.shutdown(ctx, syscall.SIGQUIT) }

// ownServer is nil if another process started the server.
func (m *Member) ownServer() *child {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.child
}

func (m *Member) shutdown(ctx context.Context, signal syscall.Signal) error {
	server := m.ownServer()
	if pid, running := m.Running(); running {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal %s: %w", m.Name, err)
		}
		m.cluster.log.Info("server stopping", logMember, m.Name, logPID, pid, logSignal, signal.String())
		err := until(ctx, pollEvery, func() (bool, error) { return !isPostmaster(pid, m.dataDir()), nil })
		if err != nil {
			return fmt.Errorf("wait for %s to end: %w", m.Name, err)
		}
	}
	if server != nil {
		select {
		case <-server.exited:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to end: %w", m.Name, ctx.Err())
		}
	}
	return nil
}

// KillBackend sends SIGKILL to one backend of this server, upon which PostgreSQL ends every
// session and goes through crash recovery, and returns when the server has noticed; [Member.WaitReady]
// waits for the end of the recovery. A pid that is no child of the server is refused.
func (m *Member) KillBackend(ctx context.Context, pid int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	postmaster, running := m.Running()
	if !running {
		return fmt.Errorf("%s is not running", m.Name)
	}
	if parentOf(pid) != postmaster {
		return fmt.Errorf("process %d is no backend of %s", pid, m.Name)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill backend %d of %s: %w", pid, m.Name, err)
	}
	// Once the postmaster has reaped it, it accepts nobody before the recovery is over.
	err := until(ctx, pollEvery, func() (bool, error) { return parentOf(pid) != postmaster, nil })
	if err != nil {
		return fmt.Errorf("wait for the end of backend %d of %s: %w", pid, m.Name, err)
	}
	return nil
}

// WaitReady returns when the running server accepts connections.
func (m *Member) WaitReady(ctx context.Context) error {
	pid, running := m.Running()
	if !running {
		return fmt.Errorf("%s is not running", m.Name)
	}
	return m.awaitReady(ctx, pid, nil)
}

func (m *Member) writeConfig() error {
	return m.cluster.account.writeFile(filepath.Join(m.dataDir(), labConf), m.config(m.cluster.Primary()))
}
