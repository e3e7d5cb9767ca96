package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Asynchronous commits are acknowledged before they are written: the fence must lie
// behind the end of the commit record all the same.
func TestAsynchronousCommitsAreFenced(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	direct(t, cluster.Primary()).must("ALTER ROLE pgpilot SET synchronous_commit = off")
	r := newRig(t, cluster, nil)
	r.caughtUp()
	if got := r.connect().one("SHOW synchronous_commit"); got != "off" {
		t.Fatalf("synchronous_commit is %s", got)
	}
	crew := r.newCrew(16)
	crew.chase(50)
	crew.mustBeSound()
	if _, onReplica := crew.totals(); onReplica < 16 {
		t.Errorf("only %d reads ran on replicas: that proves nothing", onReplica)
	}
}

func TestSessionModeReadsItsWrites(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) { c.Pool.Mode = config.Session })
	crew := r.newCrew(16)
	crew.work(200)
	pause(t, cluster.Replicas()...)
	crew.work(200)
	resume(t, cluster.Replicas()...)
	crew.start()
	crew.pass(10)
	if err := cluster.Replica(1).Kill(timeout(t)); err != nil {
		t.Fatal(err)
	}
	crew.pass(10)
	if err := cluster.Replica(1).Start(timeout(t)); err != nil {
		t.Fatal(err)
	}
	crew.pass(10)
	crew.stop()
	crew.mustBeSound()
	r.caughtUp()
	// The one that was away has lost its sessions to the other, so that it gets the next.
	r.awaitReplicas(cluster.Replica(1))
}

func TestListenerKilledSessionsGoOn(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	crew := r.newCrew(8)
	crew.start()
	crew.pass(5)
	r.kill(rundir.Listener, 1)
	crew.pass(20)
	if _, err := r.dial(""); err == nil {
		t.Error("a login without a listener")
	}
	r.start(rundir.Listener, 1)
	c := r.connect()
	c.must("SELECT count(*) FROM crew")
	crew.pass(20)
	// The new listener knows the old sessions, and their cancel keys work.
	r.until("the listener counts the old sessions", func() bool { return r.metric("pgpilot_listener_clients") == 9 })
	crew.stop()
	crew.mustBeSound()
	h := crew.hands[0]
	done := make(chan error, 1)
	go func() {
		_, err := h.run("SELECT pg_sleep(600)")
		done <- err
	}()
	var all []*client
	for _, m := range cluster.Members() {
		all = append(all, direct(t, m))
	}
	awaitSleep(t, all)
	h.cancel()
	if err := <-done; sqlstate(err) != "57014" {
		t.Errorf("cancel of a session of an earlier listener: %v", err)
	}
}

// Server connections that die while nobody has them are nobody's business.
func TestIdleServerConnectionsMayDie(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c := r.connect()
	c.must("CREATE TABLE kept (a int)")
	var servers []*client
	for _, m := range cluster.Members() {
		servers = append(servers, direct(t, m))
	}
	for n := range 5 {
		for _, s := range servers {
			s.must("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = 'pgpilot' AND backend_type = 'client backend'")
		}
		c.must(fmt.Sprintf("INSERT INTO kept VALUES (%d)", n))
		if got := c.one("SELECT count(*) FROM kept"); got != fmt.Sprint(n+1) {
			t.Fatalf("%s rows after %d inserts", got, n+1)
		}
	}
}

// A client that leaves in the middle of a statement leaves nothing running and no
// connection taken.
func TestClientGoneFreesItsServer(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(1))
	var all []*client
	for _, m := range cluster.Members() {
		all = append(all, direct(t, m))
	}
	next := r.connect()
	next.must("CREATE TABLE t (a int)")
	r.caughtUp()
	for _, sql := range []string{"SELECT pg_sleep(600)", "INSERT INTO t SELECT 1 FROM pg_sleep(600)", "BEGIN; INSERT INTO t VALUES (1); SELECT pg_sleep(600)"} {
		w := hijack(t, r.connect())
		w.front.SendQuery(&pgproto3.Query{String: sql})
		if err := w.front.Flush(); err != nil {
			t.Fatal(err)
		}
		awaitSleep(t, all)
		_ = w.conn.Conn.Close()
		await(t, "the statement is canceled: "+sql, func() bool {
			for _, s := range all {
				if s.one("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()") != "0" {
					return false
				}
			}
			return true
		})
		next.must("INSERT INTO t VALUES (2)")
		next.must("SELECT count(*) FROM t")
	}
	if got := next.one("SELECT count(*) FROM t WHERE a = 1"); got != "0" {
		t.Errorf("%s rows of statements whose clients left", got)
	}
}

// Statements sent without waiting for answers are answered in order, each seeing the
// ones before it, however much is under way in both directions.
func TestPipelinedStatements(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c := r.connect()
	c.must("CREATE TABLE line (n int PRIMARY KEY, pad text)")
	w := hijack(t, c)

	const rounds = 500
	pad := strings.Repeat("p", 20000)
	sent := make(chan error, 1)
	go func() {
		var out bytes.Buffer
		for n := range rounds {
			for _, sql := range []string{
				fmt.Sprintf("INSERT INTO line VALUES (%d, '%s')", n, pad),
				fmt.Sprintf("SELECT n, pad FROM line WHERE n = %d", n),
				"SELECT 1/0",
				"",
				"SELECT count(*), pg_is_in_recovery() FROM line",
			} {
				b, err := (&pgproto3.Query{String: sql}).Encode(nil)
				if err != nil {
					sent <- err
					return
				}
				out.Write(b)
			}
		}
		_, err := w.conn.Conn.Write(out.Bytes())
		sent <- err
	}()
	next := func() string {
		t.Helper()
		var answer strings.Builder
		for {
			m, err := w.front.Receive()
			if err != nil {
				t.Fatal(err)
			}
			switch m := m.(type) {
			case *pgproto3.DataRow:
				fmt.Fprintf(&answer, "row %s %d; ", m.Values[0], len(m.Values[1]))
			case *pgproto3.CommandComplete:
				fmt.Fprintf(&answer, "%s; ", m.CommandTag)
			case *pgproto3.EmptyQueryResponse:
				answer.WriteString("empty; ")
			case *pgproto3.ErrorResponse:
				fmt.Fprintf(&answer, "%s; ", m.Code)
			case *pgproto3.ReadyForQuery:
				return answer.String() + string(m.TxStatus)
			}
		}
	}
	for n := range rounds {
		for _, want := range []string{
			"INSERT 0 1; I",
			fmt.Sprintf("row %d 20000; SELECT 1; I", n),
			"22012; I",
			"empty; I",
			fmt.Sprintf("row %d 1; SELECT 1; I", n+1),
		} {
			if got := next(); got != want {
				t.Fatalf("round %d: %q, want %q", n, got, want)
			}
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// A reload changes what it may while sessions go on; a bad file changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	direct(t, cluster.Primary()).must("CREATE ROLE late LOGIN PASSWORD 'comer'; GRANT CONNECT ON DATABASE pgpilot TO late")
	r := newRig(t, cluster, nil)
	r.caughtUp()
	c := r.connect()
	c.must("SELECT 1")
	if _, err := r.dial("user=late password=comer"); sqlstate(err) != "28P01" {
		t.Fatalf("a user that is not configured yet: %v", err)
	}

	r.configure(func(c *config.Config) {
		c.Users = append(c.Users, config.User{Name: "late", Password: "comer"})
		c.Routing.AllToPrimary = true
	})
	r.until("the new user may log in", func() bool {
		l, err := r.dial("user=late password=comer")
		return err == nil && l.one("SELECT current_user") == "late"
	})
	r.until("the emergency switch is on", func() bool { return c.port() == cluster.Primary().Port && c.route().Reason == "all_to_primary" })

	// Everything that would change is refused with what is wrong.
	r.configure(func(c *config.Config) {
		c.Routing.AllToPrimary = false
		c.Pool.Mode = "statement"
	})
	r.until("every service has refused the file", func() bool { return r.metric("pgpilot_config_reloads_total", "result", "refused") >= 4 })
	if got := c.port(); got != cluster.Primary().Port {
		t.Errorf("a refused file has turned the emergency switch off: read on port %d", got)
	}

	r.configure(func(c *config.Config) { c.Pool.Mode = config.Transaction })
	r.until("the emergency switch is off", func() bool { return c.port() != cluster.Primary().Port })
}

// configure changes the file the services read, which they see by themselves. Where many
// stacks run, the kernel may have no notifications left for some, which say so and have to be
// told.
func (r *rig) configure(change func(*config.Config)) {
	r.t.Helper()
	if r.changed == nil {
		copied := *r.cfg
		r.changed = &copied
	}
	change(r.changed)
	text, err := json.Marshal(r.changed)
	if err != nil {
		r.t.Fatal(err)
	}
	fresh := r.ConfigPath() + ".fresh"
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(fresh, r.ConfigPath()); err != nil {
		r.t.Fatal(err)
	}
	for _, p := range r.Processes() {
		log, err := os.ReadFile(p.LogFile())
		if err != nil {
			r.t.Fatal(err)
		}
		if !p.Running() || !bytes.Contains(log, []byte("only seen at SIGHUP")) {
			continue
		}
		if err := p.Signal(syscall.SIGHUP); err != nil {
			r.t.Fatal(err)
		}
	}
}
