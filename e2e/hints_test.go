package e2e

import (
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/config"
)

// TestHints has comments choose among the servers, in both protocols (rule 29).
func TestHints(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) { c.Classify.Timeout = config.Duration(patience) }) // what is not known to read has no hints
	primary := cluster.Primary().Port
	r.awaitReplicas(cluster.Replica(1), cluster.Replica(2))
	c := r.connect()
	on := func(c *client, sql string) (port int, why string) {
		t.Helper()
		port, err := strconv.Atoi(c.one(sql))
		if err != nil {
			t.Fatal(err)
		}
		return port, c.route().Reason
	}
	if port, why := on(c, "/* pgpilot: primary */ SELECT inet_server_port()"); port != primary || why != "hint" {
		t.Errorf("a read with the hint primary runs on port %d for %s", port, why)
	}
	if port, why := on(c, "SELECT inet_server_port() -- pgpilot: replica"); port == primary || why != "hint" {
		t.Errorf("a read with the hint replica runs on port %d for %s", port, why)
	}
	if port, why := on(c, "SELECT inet_server_port()"); port == primary || why != "read" {
		t.Errorf("a read without a hint runs on port %d for %s", port, why)
	}
	if n := r.metric("pgpilot_routing_decisions_total", "target", "primary", "reason", "hint"); n != 1 {
		t.Errorf("%v decisions for the primary are counted for the hint", n)
	}

	// A hint is no way around the fence, nor for a write.
	c.must("CREATE TABLE hinted (n int)")
	r.caughtUp()
	other := r.connect()
	r.readsOnReplica(other, "SELECT count(*) FROM hinted")
	for i := range 2 {
		if err := cluster.Replica(i + 1).PauseReplay(timeout(t)); err != nil {
			t.Fatal(err)
		}
	}
	c.must("INSERT INTO hinted VALUES (1) /* pgpilot: replica */")
	if got := c.one("SELECT count(*) FROM hinted /* pgpilot: replica */"); got != "1" || c.route().Role != "primary" {
		t.Errorf("a strict session reads %s on %+v", got, c.route())
	}

	// A token of this session's write has another session see it.
	system := direct(t, cluster.Primary()).must("SELECT system_identifier, pg_current_wal_insert_lsn(), pg_current_wal_insert_lsn() + 1000000 FROM pg_control_system()")[0]
	token := func(system, position string) string { return system + "/1@0/0:" + position }
	if got := other.one("SELECT count(*) FROM hinted"); got != "0" {
		t.Errorf("another session reads %s from a replica that does not replay", got)
	}
	if got := other.one("SELECT count(*) FROM hinted /* pgpilot: fence=" + token(system[0], system[1]) + " */"); got != "1" {
		t.Errorf("another session with the token reads %s", got)
	}
	// So does one that the last statement of a sequence brings, for all of it.
	batch := func(c *client, last string) ([]*pgconn.Result, error) {
		var b pgconn.Batch
		for _, sql := range []string{"SELECT count(*) FROM hinted", "SELECT 2 FROM hinted", last} {
			b.ExecParams(sql, nil, nil, nil, nil)
		}
		return c.conn.ExecBatch(timeout(t), &b).ReadAll()
	}
	third := r.connect()
	results, err := batch(third, "SELECT count(*) FROM hinted /* pgpilot: fence="+token(system[0], system[2])+" */")
	if sqlstate(err) != "22023" || len(results) != 0 {
		t.Errorf("a sequence with a token from the future gives %d results and %v", len(results), err)
	}
	if got := third.one("SELECT count(*) FROM hinted"); got != "0" {
		t.Errorf("behind a sequence that was refused, %s is read", got)
	}
	results, err = batch(third, "SELECT count(*) FROM hinted /* pgpilot: fence="+token(system[0], system[1])+" */")
	if err != nil || len(results) != 3 || string(results[0].Rows[0][0]) != "1" || len(results[1].Rows) != 1 || string(results[2].Rows[0][0]) != "1" {
		t.Errorf("a sequence with the token gives %+v, %v", results, err)
	}
	other.fails("SELECT 1 /* pgpilot: fence="+token("7301234567890123456", system[1])+" */", "22023")
	other.fails("SELECT 1 /* pgpilot: fence="+token(system[0], system[2])+" */", "22023")
	other.fails("SELECT 1 /* pgpilot: fence=yesterday */", "22023")
	if got := other.one("SELECT count(*) FROM hinted"); got != "1" {
		t.Errorf("a session whose fence has been raised reads %s", got)
	}
	for i := range 2 {
		if err := cluster.Replica(i + 1).ResumeReplay(timeout(t)); err != nil {
			t.Fatal(err)
		}
	}

	// Statements that are prepared keep theirs.
	ctx := timeout(t)
	var warnings []string
	cfg, err := pgx.ParseConfig(r.dsn())
	if err != nil {
		t.Fatal(err)
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { warnings = append(warnings, n.Code+" "+n.Message) }
	p, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(ctx)
	var port int
	for range 3 {
		if err := p.QueryRow(ctx, "SELECT inet_server_port() /* pgpilot: primary, sideways */").Scan(&port); err != nil || port != primary {
			t.Errorf("a prepared read with the hint primary runs on port %d: %v", port, err)
		}
		if err := p.QueryRow(ctx, "SELECT inet_server_port() WHERE $1 /* pgpilot: replica */", true).Scan(&port); err != nil || port == primary {
			t.Errorf("a prepared read with the hint replica runs on port %d: %v", port, err)
		}
	}
	if len(warnings) != 1 || warnings[0] != `01000 pgpilot does not understand the hint "sideways"` {
		t.Errorf("the warnings are %q", warnings)
	}
}
