package e2e

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgpilot/pgpilot/libs/config"
)

// begunOnReplica begins a transaction until its first statement runs on a replica, and
// gives that one's port.
func (r *rig) begunOnReplica(c *client, begin string) (port int) {
	r.t.Helper()
	r.until(begin+" runs on a replica", func() bool {
		c.must(begin)
		if port = c.port(); port != r.Lab.Primary().Port {
			return true
		}
		c.must("ROLLBACK")
		return false
	})
	return port
}

// wholeOn checks that reads run on the server with the port.
func (c *client) wholeOn(port int) {
	c.t.Helper()
	for range 5 {
		if got := c.port(); got != port {
			c.t.Fatalf("a read of the transaction runs on port %d, want %d", got, port)
		}
	}
}

// A transaction that is read only runs as a whole on one replica, however it is begun.
func TestReadOnlyTransactionsRunOnReplicas(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c := r.connect()
	c.must("CREATE TABLE report AS SELECT 1 AS v")
	r.caughtUp()
	r.awaitReplicas(cluster.Replicas()...)

	for _, begin := range []string{"BEGIN READ ONLY", "START TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY"} {
		c.wholeOn(r.begunOnReplica(c, begin))
		if got := c.route(); got.Reason != "read_only" {
			t.Errorf("%s: its reads are %+v", begin, got)
		}
		c.must("COMMIT")
	}
	c.must("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
	c.wholeOn(r.begunOnReplica(c, "BEGIN"))
	c.must("ROLLBACK")
	c.fails("INSERT INTO report VALUES (2)", "25006")
	c.must("RESET ALL")

	// With a driver.
	ctx, driver := timeout(t), r.pgx("")
	var first, second, value int
	r.until("a transaction of pgx runs on a replica", func() bool {
		tx, err := driver.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
		if err != nil {
			t.Fatal(err)
		}
		for _, into := range []*int{&first, &second} {
			if err := tx.QueryRow(ctx, "SELECT inet_server_port()").Scan(into); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.QueryRow(ctx, "SELECT v FROM report WHERE v = $1", 1).Scan(&value); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		return first != cluster.Primary().Port
	})
	if first != second || value != 1 {
		t.Errorf("it reads on ports %d and %d, and %d", first, second, value)
	}
	// Connections come back without their transactions.
	for _, m := range cluster.Replicas() {
		su := direct(t, m)
		r.until("no transaction is left on "+m.Name, func() bool {
			return su.one("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'") == "0"
		})
	}
}

// What a replica cannot be asked has the transaction go on on the primary.
func TestReadOnlyTransactionsGoOnOnThePrimary(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c := r.connect()
	c.must("CREATE TABLE moving AS SELECT 1 AS v")
	r.caughtUp()
	r.awaitReplicas(cluster.Replicas()...)

	r.begunOnReplica(c, "BEGIN READ ONLY")
	if got := c.one("SELECT pg_is_in_recovery()"); got != "f" {
		t.Errorf("pg_is_in_recovery() is %s", got)
	}
	if got := c.route(); got.Reason != "unproven" {
		t.Errorf("it runs because of %+v", got)
	}
	c.wholeOn(cluster.Primary().Port)
	c.fails("SET TRANSACTION READ WRITE", "25001") // as behind any query
	c.must("ROLLBACK")

	// Its own writes, whatever the replicas show.
	pause(t, cluster.Replicas()...)
	c.must("UPDATE moving SET v = 2")
	c.must("BEGIN READ ONLY")
	if got := c.one("SELECT v FROM moving"); got != "2" {
		t.Errorf("a read-only transaction reads %s of its session's 2", got)
	}
	c.must("COMMIT")
	resume(t, cluster.Replicas()...)
	r.caughtUp()

	// In linear mode, others' writes, too, at every statement.
	c.must("SET pgpilot.fencing = 'linear'")
	r.begunOnReplica(c, "BEGIN READ ONLY")
	pause(t, cluster.Replicas()...)
	writer := r.connect()
	writer.must("UPDATE moving SET v = 3")
	if got := c.one("SELECT v FROM moving"); got != "3" {
		t.Errorf("a linear read in a transaction reads %s of 3", got)
	}
	c.must("COMMIT")
	resume(t, cluster.Replicas()...)
	c.must("RESET pgpilot.fencing")

	// A replica that is gone between two statements.
	port := r.begunOnReplica(c, "BEGIN READ ONLY")
	for _, m := range cluster.Replicas() {
		if m.Port == port {
			if err := m.Kill(timeout(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := c.one("SELECT v FROM moving"); got != "3" {
		t.Errorf("behind the loss of its replica it reads %s", got)
	}
	c.wholeOn(cluster.Primary().Port)
	c.must("COMMIT")
}

// A repeatable read transaction is on a replica only where its session asks for one.
func TestRepeatableReadOnReplicas(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c, writer := r.connect(), r.connect()
	writer.must("CREATE TABLE fixed AS SELECT 1 AS v")
	r.caughtUp()
	r.awaitReplicas(cluster.Replicas()...)
	const begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
	c.must(begin)
	c.wholeOn(cluster.Primary().Port)
	c.must("COMMIT")

	c.must("SET pgpilot.route = 'replica'")
	r.readsOnReplica(c, "SELECT v FROM fixed") // what is not known to read cannot go on on a replica
	port := r.begunOnReplica(c, begin)
	if got := c.one("SELECT v FROM fixed"); got != "1" {
		t.Fatalf("it reads %s", got)
	}
	writer.must("UPDATE fixed SET v = 2")
	r.caughtUp()
	if got := c.one("SELECT v FROM fixed"); got != "1" {
		t.Errorf("its snapshot has become %s", got)
	}
	c.wholeOn(port)
	c.fails("SELECT pg_is_in_recovery()", "0A000")
	c.fails("SELECT 1", "25P02")
	c.must("ROLLBACK")
}

// What the router executes itself is no statement of a transaction, however it is sent: drivers
// prepare it as they do all else.
func TestReadOnlyTransactionsWithTheRoutersStatements(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	r.awaitReplicas(cluster.Replicas()...)
	ctx, c := timeout(t), r.pgx("")
	exec := func(sql string) {
		t.Helper()
		rows, err := c.Query(ctx, sql) // prepares it, as Exec does not
		if err == nil {
			rows.Close()
			err = rows.Err()
		}
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	port := func() (n int) {
		t.Helper()
		if err := c.QueryRow(ctx, "SELECT inet_server_port()").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	exec("SET pgpilot.route = 'replica'")
	var on int
	r.until("a transaction runs on a replica", func() bool {
		exec("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") // which nothing else may leave
		if on = port(); on != cluster.Primary().Port {
			return true
		}
		exec("ROLLBACK")
		return false
	})
	for range 2 { // the second time they are prepared
		for _, sql := range []string{
			"SHOW pgpilot.last_route", "SHOW pgpilot.session", "SHOW pgpilot.route", "SET LOCAL pgpilot.freshness = '5s'", "RESET pgpilot.freshness", "SET pgpilot.route = 'replica'",
		} {
			exec(sql)
			if got := port(); got != on {
				t.Errorf("behind %s a read runs on port %d, want %d", sql, got, on)
			}
		}
		b := &pgx.Batch{}
		b.Queue("SHOW pgpilot.route")
		b.Queue("SELECT inet_server_port()")
		b.Queue("SHOW pgpilot.route")
		results := c.SendBatch(ctx, b)
		var before, after string
		var between int
		for _, into := range []any{&before, &between, &after} {
			if err := results.QueryRow().Scan(into); err != nil {
				t.Fatal(err)
			}
		}
		if err := results.Close(); err != nil || before != "replica" || between != on || after != "replica" {
			t.Errorf("a batch gives %s, %d, %s: %v", before, between, after, err)
		}
	}
	exec("COMMIT")
}

// The operator's switch.
func TestReadOnlyTransactionsOnThePrimary(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) { c.Routing.ReadOnlyTransactions = false })
	c := r.connect()
	r.until("reads run on replicas", func() bool { return c.port() != cluster.Primary().Port })
	for range 20 {
		c.must("BEGIN READ ONLY")
		c.wholeOn(cluster.Primary().Port)
		c.must("COMMIT")
	}
}

// A session goes to another router in a read-only transaction.
func TestReadOnlyTransactionsMove(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) { c.Drain.Timeout = config.Duration(patience) })
	c, fixed := r.connect(), r.connect()
	c.must("CREATE TABLE carried AS SELECT 1 AS v")
	r.caughtUp()
	r.awaitReplicas(cluster.Replicas()...)
	fixed.must("SET pgpilot.route = 'replica'")
	r.begunOnReplica(c, "BEGIN READ ONLY")
	port := r.begunOnReplica(fixed, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
	if err := r.Service("router", 1).Restart(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if got := c.one("SELECT v FROM carried"); got != "1" {
		t.Errorf("after the move it reads %s", got)
	}
	c.must("COMMIT")
	fixed.wholeOn(port)
	fixed.must("COMMIT")
}
