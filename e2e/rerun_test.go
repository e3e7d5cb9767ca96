package e2e

import "testing"

// What a standby cannot do at all (an unlogged table is not replicated, PostgreSQL
// documentation: "CREATE TABLE") is answered by the primary, unseen, and is not sent
// to a replica again (rule 27).
func TestReadsThatReplicasCannotRun(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c := r.connect()
	c.must("CREATE UNLOGGED TABLE fast (a int)")
	c.must("INSERT INTO fast VALUES (1)")
	r.caughtUp()
	r.until("its reads are known to be the primary's", func() bool {
		if got := c.one("SELECT a FROM fast WHERE a < 5"); got != "1" {
			t.Fatalf("an unlogged table reads %s", got)
		}
		return c.route().Reason == "write"
	})
	// An error of the statement's own comes once, as the primary has it, and costs no
	// connection.
	r.until("the division runs on a replica first", func() bool {
		c.fails("SELECT 1 / (SELECT 0)", "22012")
		return c.route().Reason == "rerun"
	})
	before, again := r.metric("pgpilot_read_failovers_total"), 0
	for range 20 {
		c.fails("SELECT 1 / (SELECT 0)", "22012")
		if c.route().Reason == "rerun" { // one that lag has sent to the primary does not
			again++
		}
	}
	if got := r.metric("pgpilot_read_failovers_total") - before; got != float64(again) {
		t.Errorf("%v reads were counted as run again, of 20 that failed %d were", got, again)
	}
	kept := 0
	for _, m := range cluster.Replicas() {
		if direct(t, m).one("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND query LIKE '%SELECT 1 / (SELECT 0)%' AND state = 'idle'") != "0" {
			kept++
		}
	}
	if kept == 0 {
		t.Error("no connection of a replica outlives the error of a read")
	}
}

// What replicas refuse because the transactions of one login are serializable, those of
// another go on to read there: of the statement nothing is learned.
func TestSerializableLoginReadsFromThePrimary(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	others := r.connect()
	others.must("CREATE TABLE shared AS SELECT 1 AS v")
	r.caughtUp()
	const sql = "SELECT v FROM shared"
	r.readsOnReplica(others, sql)
	c, err := r.dial("options='-c default_transaction_isolation=serializable'")
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if got := c.one(sql); got != "1" {
			t.Fatalf("it reads %s", got)
		}
		if got := c.route(); got.Role != "primary" || got.Reason == "write" {
			t.Errorf("its reads are %+v", got)
		}
	}
	others.must(sql)
	if got := others.route(); got.Reason == "write" {
		t.Errorf("another login's reads are %+v", got)
	}
}
