package lab_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, m *lab.Member, sql string) {
	t.Helper()
	if _, err := connect(t, m.DSN()).Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s on %s: %v", sql, m.Name, err)
	}
}

func query[T any](t *testing.T, m *lab.Member, sql string) T {
	t.Helper()
	var value T
	if err := connect(t, m.DSN()).QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s on %s: %v", sql, m.Name, err)
	}
	return value
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pids returns the postmasters, 0 for a stopped one.
func pids(c *lab.Cluster) []int {
	var list []int
	for _, m := range c.Members() {
		pid, running := m.Running()
		if !running {
			pid = 0
		}
		list = append(list, pid)
	}
	return list
}

// exists is true for a zombie too: good enough to see that something is left.
func exists(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestUpTwiceThenDownLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "for", "the lab's")
	opts := lab.Options{Dir: dir, Replicas: 1, FastUnsafe: true, Detach: true}
	first, err := lab.Start(t.Context(), opts)
	must(t, err)
	t.Cleanup(func() { _ = first.Close(context.Background()) })
	before := pids(first)

	opts.Replicas = 2
	must(t, first.Replica(1).Kill(t.Context()))
	second, err := lab.Start(t.Context(), opts)
	must(t, err)
	after := pids(second)
	if len(after) != 3 || after[0] != before[0] || after[1] == before[1] || after[1] == 0 || after[2] == 0 {
		t.Fatalf("postmasters before %v, after %v: want the primary untouched, the killed replica started, one added", before, after)
	}
	must(t, second.WaitCaughtUp(t.Context()))
	standbys := query[string](t, second.Primary(), "SELECT string_agg(application_name || ' ' || state, ', ' ORDER BY application_name) FROM pg_stat_replication")
	if standbys != "replica1 streaming, replica2 streaming" {
		t.Fatalf("pg_stat_replication shows %s", standbys)
	}

	attached, err := lab.Open(dir)
	must(t, err)
	sockets := attached.Primary().SocketDir()
	must(t, attached.Close(t.Context()))
	must(t, second.Close(t.Context()))
	for _, m := range second.Members() {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", m.Host, m.Port))
		if err != nil {
			t.Errorf("port of %s: %v", m.Name, err)
			continue
		}
		_ = l.Close()
	}
	for _, path := range []string{sockets, filepath.Dir(sockets), filepath.Dir(filepath.Dir(dir))} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	for i, m := range second.Members() {
		if _, running := m.Running(); running {
			t.Errorf("%s (%d) still runs", m.Name, after[i])
		}
	}
	if _, err := lab.Open(dir); !errors.Is(err, lab.ErrNoCluster) {
		t.Errorf("after the end Open says %v", err)
	}
}

func TestRoleAndAuthentication(t *testing.T) {
	t.Parallel()
	m := labtest.Start(t, 0).Primary()
	super := connect(t, m.SuperDSN())
	role := query[string](t, m, `SELECT concat_ws(' ', rolsuper, rolreplication, rolcanlogin, rolcreatedb,
		pg_has_role('pg_read_all_stats', 'USAGE'), pg_get_userbyid(datdba))
		FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()`)
	if role != "f t t f t pgpilot" {
		t.Errorf("role: super, replication, login, createdb, stats, owner = %s", role)
	}
	var trusting int
	err := super.QueryRow(t.Context(), "SELECT count(*) FROM pg_hba_file_rules WHERE auth_method <> 'scram-sha-256'").Scan(&trusting)
	if err != nil || trusting != 0 {
		t.Errorf("%d rules of pg_hba.conf ask for something else than SCRAM (%v)", trusting, err)
	}
	socket := fmt.Sprintf("host='%s' port=%d dbname=%s user=%s ", m.SocketDir(), m.Port, lab.Database, lab.User)
	_ = connect(t, socket+"password="+lab.Password)
	for _, dsn := range []string{socket + "password=wrong", m.DSNFor(lab.User, "wrong", lab.Database), m.DSNFor("postgres", lab.Password, lab.Database)} {
		const invalidPassword = "28P01"
		var refused *pgconn.PgError
		if _, err := pgx.Connect(t.Context(), dsn); !errors.As(err, &refused) || refused.Code != invalidPassword {
			t.Errorf("a wrong password over %s got %v", dsn, err)
		}
	}
}

func TestPauseAndResumeReplay(t *testing.T) {
	t.Parallel()
	c := labtest.Start(t, 2)
	ctx := t.Context()
	exec(t, c.Primary(), "CREATE TABLE t AS SELECT 1 AS v")
	must(t, c.WaitCaughtUp(ctx))
	must(t, c.Replica(1).PauseReplay(ctx))
	exec(t, c.Primary(), "UPDATE t SET v = 2")

	if err := c.WaitCaughtUp(ctx); err == nil || !strings.Contains(err.Error(), "replica1") || !strings.Contains(err.Error(), "paused") {
		t.Errorf("waiting for a paused replica got %v", err)
	}
	if v := query[int](t, c.Replica(1), "SELECT v FROM t"); v != 1 {
		t.Errorf("the paused replica shows %d", v)
	}
	if v := query[int](t, c.Replica(2), "SELECT v FROM t"); v != 2 {
		t.Errorf("the other replica shows %d", v)
	}
	status := c.Status(ctx)
	if !status[1].Paused || status[2].Paused || status[1].LagBytes == nil || *status[1].LagBytes <= 0 {
		t.Errorf("status does not show the pause: %+v", status)
	}
	if err := c.Primary().PauseReplay(ctx); err == nil {
		t.Error("a primary was paused")
	}
	must(t, c.Replica(1).ResumeReplay(ctx))
	must(t, c.WaitCaughtUp(ctx))
	if v := query[int](t, c.Replica(1), "SELECT v FROM t"); v != 2 {
		t.Errorf("the resumed replica shows %d", v)
	}
}

func TestKilledReplicaComesBack(t *testing.T) {
	t.Parallel()
	c := labtest.Start(t, 1)
	ctx := t.Context()
	old, _ := c.Replica(1).Running()
	must(t, c.Replica(1).Kill(ctx))
	must(t, c.Replica(1).Kill(ctx)) // of a stopped server: nothing to do
	if exists(old) {
		t.Errorf("process %d is left", old)
	}
	if st := c.Status(ctx)[1]; st.Role != lab.RoleStopped || st.PID != 0 {
		t.Errorf("status of a killed replica: %+v", st)
	}
	exec(t, c.Primary(), "CREATE TABLE t AS SELECT 7 AS v")
	must(t, c.WaitCaughtUp(ctx)) // does not count stopped ones
	must(t, c.Replica(1).Start(ctx))
	must(t, c.WaitCaughtUp(ctx))
	if v := query[int](t, c.Replica(1), "SELECT v FROM t"); v != 7 {
		t.Errorf("the replica shows %d", v)
	}
}

func TestPromoteMovesThePrimary(t *testing.T) {
	t.Parallel()
	c := labtest.Start(t, 2)
	ctx := t.Context()
	exec(t, c.Primary(), "CREATE TABLE t AS SELECT 1 AS v")
	must(t, c.WaitCaughtUp(ctx))
	must(t, c.Primary().Kill(ctx))
	must(t, c.Promote(ctx, 1))
	if c.Primary() != c.Replica(1) {
		t.Fatalf("the primary is %s", c.Primary().Name)
	}
	if err := c.Promote(ctx, 1); err == nil {
		t.Error("a primary was promoted")
	}
	exec(t, c.Primary(), "UPDATE t SET v = 2")
	must(t, c.WaitCaughtUp(ctx))
	if v := query[int](t, c.Replica(2), "SELECT v FROM t"); v != 2 {
		t.Errorf("the other replica does not follow: it shows %d", v)
	}
	status := c.Status(ctx)
	if status[1].Role != lab.RolePrimary || status[1].Timeline != 2 || status[2].Timeline != 2 {
		t.Errorf("status after the promotion: %+v", status)
	}

	old, err := c.Member(0)
	must(t, err)
	must(t, old.Start(ctx))
	must(t, c.WaitCaughtUp(ctx)) // does not wait for a stale primary
	if v := query[int](t, old, "SELECT v FROM t"); v != 1 {
		t.Errorf("the old primary shows %d", v)
	}
	if st := c.Status(ctx)[0]; st.Role != lab.RolePrimary || st.Timeline != 1 {
		t.Errorf("status of the stale primary: %+v", st)
	}
	attached, err := lab.Open(c.Dir())
	must(t, err)
	if attached.Primary().Number != 1 {
		t.Errorf("another process takes %s for the primary", attached.Primary().Name)
	}
}

func TestKillBackendRestartsTheServer(t *testing.T) {
	t.Parallel()
	m := labtest.Start(t, 0).Primary()
	ctx := t.Context()
	victim, bystander := connect(t, m.DSN()), connect(t, m.DSN())
	started := query[time.Time](t, m, "SELECT min(backend_start) FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
	must(t, m.KillBackend(ctx, int(victim.PgConn().PID())))
	must(t, m.WaitReady(ctx))
	if err := bystander.Ping(ctx); err == nil {
		t.Error("another session survived")
	}
	if again := query[time.Time](t, m, "SELECT min(backend_start) FROM pg_stat_activity WHERE backend_type = 'checkpointer'"); !again.After(started) {
		t.Error("the server did not restart its processes")
	}
	if err := m.KillBackend(ctx, os.Getpid()); err == nil {
		t.Fatal("a process that is no backend was killed")
	}
}

func TestTwoClustersAtOnce(t *testing.T) {
	t.Parallel()
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			c := labtest.Start(t, 1)
			exec(t, c.Primary(), fmt.Sprintf("CREATE TABLE t AS SELECT %d AS v", i))
			must(t, c.WaitCaughtUp(t.Context()))
			if v := query[int](t, c.Replica(1), "SELECT v FROM t"); v != i {
				t.Errorf("replica of cluster %d shows %d", i, v)
			}
		})
	}
}
