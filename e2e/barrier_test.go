package e2e

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
)

// A replica that does not answer holds up nobody's use of the primary: not where only
// another one matters, and where it matters too, as soon as another one has replayed all
// that it may have shown. While that is behind, nobody can say.
func TestASilentReplicaHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) {
		c.Fencing.WaitPrimary = config.Duration(10 * time.Second) // ten statements that are not refused each need an answer within it
	})
	linear, slow, watch := r.connect(), r.connect(), r.connect()
	linear.must("CREATE TABLE passed (k int PRIMARY KEY, v int)")
	linear.must("INSERT INTO passed VALUES (1, 0), (2, 0)")
	r.caughtUp()
	r.awaitReplicas(cluster.Replicas()...)
	linear.must("SET pgpilot.fencing = 'linear'")
	linear.must("UPDATE passed SET v = 1 WHERE k = 1")

	// Sessions to which only the other replica matters.
	var causal []*client
	r.until("ten sessions have read on "+cluster.Replica(2).Name, func() bool {
		c := r.connect()
		c.must("SET pgpilot.fencing = 'causal'")
		if c.port() == cluster.Replica(2).Port {
			causal = append(causal, c)
		} else {
			c.close()
		}
		return len(causal) == 10
	})

	// In progress on the primary, and committed nowhere.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = slow.run("WITH w AS (INSERT INTO passed VALUES (3, 0) RETURNING k) SELECT pg_sleep(600) FROM w")
	}()
	defer func() {
		watch.must("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'WITH w AS%'")
		<-ended
	}()
	r.until("a statement that writes is running", func() bool {
		return watch.one("/* pgpilot: primary */ SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND state = 'active'") == "1"
	})
	if err := cluster.Replica(2).PauseReplay(timeout(t)); err != nil {
		t.Fatal(err)
	}
	linear.must("UPDATE passed SET v = v WHERE k = 1") // which that replica has not replayed
	freeze(t, cluster, cluster.Replica(1))
	rounds := r.metric("pgpilot_fence_barrier_rounds_total")
	refused := make(chan error, 1)
	go func() {
		_, err := linear.run("UPDATE passed SET v = 2 WHERE k = 1")
		refused <- err
	}()
	r.until("the barrier is asked", func() bool { return r.metric("pgpilot_fence_barrier_rounds_total") > rounds })
	for _, c := range causal {
		c.must("UPDATE passed SET v = v + 1 WHERE k = 2")
	}
	if err := <-refused; sqlstate(err) != "57P03" {
		t.Errorf("whoever may have to see what the replica has shown is told %v, want 57P03", err)
	}
	if err := cluster.Replica(2).ResumeReplay(timeout(t)); err != nil {
		t.Fatal(err)
	}
	linear.must("UPDATE passed SET v = 2 WHERE k = 1")
}
