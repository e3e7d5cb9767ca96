package e2e

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
)

// A replica that does not answer holds up nobody's use of the primary but that of
// sessions which may have to see there what it has shown.
func TestASilentReplicaHoldsUpNobodyElse(t *testing.T) {
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) {
		c.Fencing.WaitPrimary = config.Duration(time.Second)
	})
	linear, causal, slow := r.connect(), r.connect(), r.connect()
	linear.must("CREATE TABLE passed (k int PRIMARY KEY, v int)")
	linear.must("INSERT INTO passed VALUES (1, 0), (2, 0)")
	r.caughtUp()
	r.awaitReplicas(cluster.Replicas()...)
	linear.must("SET pgpilot.fencing = 'linear'")
	linear.must("UPDATE passed SET v = 1 WHERE k = 1")
	causal.must("SET pgpilot.fencing = 'causal'")
	other := cluster.Replica(2)
	read := func() {
		t.Helper()
		r.until("a read on "+other.Name, func() bool { return causal.port() == other.Port })
	}
	read()

	// In progress on the primary, and committed nowhere.
	watch := r.connect()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		slow.run("WITH w AS (INSERT INTO passed VALUES (3, 0) RETURNING k) SELECT pg_sleep(600) FROM w")
	}()
	defer func() {
		watch.must("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'WITH w AS%'")
		<-ended
	}()
	r.until("a statement that writes is running", func() bool {
		return watch.one("/* pgpilot: primary */ SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND state = 'active'") == "1"
	})
	freeze(t, cluster, cluster.Replica(1))
	refused := make(chan error, 1)
	go func() {
		for {
			if _, err := linear.run("UPDATE passed SET v = v + 1 WHERE k = 1"); err != nil {
				refused <- err
				return
			}
		}
	}()
	for done := false; !done; {
		read()
		causal.must("UPDATE passed SET v = v + 1 WHERE k = 2")
		select {
		case err := <-refused:
			if sqlstate(err) != "57P03" {
				t.Errorf("whoever may have seen what the replica has shown is told %v, want 57P03", err)
			}
			done = true
		default:
		}
	}
}
