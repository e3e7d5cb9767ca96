package e2e

import (
	"testing"
)

// The primary's insert position may lie in WAL that nobody has asked it to flush: the
// tail of a transaction that stays open. A fence in there is out of every replica's
// reach until the server's timers expire, unless the primary is made to flush.
func TestAFenceInUnflushedWAL(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	su := direct(t, cluster.Primary())
	su.must("ALTER SYSTEM SET wal_writer_delay = '2s'") // time to be nudged before it flushes by itself
	su.must("SELECT pg_reload_conf()")
	su.must("CREATE TABLE tail (v text); CREATE TABLE one AS SELECT 1 AS v; GRANT ALL ON one TO PUBLIC")
	r.caughtUp()
	other, c := direct(t, cluster.Primary()), r.connect()
	other.must("BEGIN")
	before := r.metric("pgpilot_fence_nudges_total")
	for range 5 {
		other.must("INSERT INTO tail VALUES (repeat('t', 100))")
		// It writes no record, so that nothing of its own is flushed either.
		c.fails("UPDATE one SET v = v / 0", "22012")
		r.until("a replica serves the session again", func() bool { return c.port() != cluster.Primary().Port })
	}
	if got := r.metric("pgpilot_fence_nudges_total"); got == before {
		t.Error("replicas reached the fences without a nudge: they did not lie in unflushed WAL")
	}
}
