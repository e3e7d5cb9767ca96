package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
)

// newPreparingRig runs a stack on servers that allow prepared transactions, and gives a
// superuser's connection to the primary.
func newPreparingRig(t *testing.T) (*rig, *lab.Cluster, *client) {
	t.Helper()
	cluster := newCluster(t)
	for _, m := range append(cluster.Replicas(), cluster.Primary()) { // a standby needs as many as its primary
		direct(t, m).must("ALTER SYSTEM SET max_prepared_transactions = 5")
		if err := m.Stop(timeout(t)); err != nil {
			t.Fatal(err)
		}
		if err := m.Start(timeout(t)); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, cluster, func(c *config.Config) {
		c.Fencing.WaitPrimary = config.Duration(5 * time.Second)
	})
	su := direct(t, cluster.Primary())
	su.must("CREATE TABLE agreed (k int PRIMARY KEY, v int); INSERT INTO agreed VALUES (1, 0); ALTER TABLE agreed OWNER TO pgpilot")
	su.must("BEGIN; INSERT INTO agreed VALUES (2, 0); PREPARE TRANSACTION 'pending'")
	r.caughtUp()
	return r, cluster, su
}

// linear begins a linear session at a router that has just been started.
func (r *rig) linear() *client {
	r.t.Helper()
	c := r.connect()
	c.must("SET pgpilot.fencing = 'linear'")
	return c
}

// A prepared transaction may stay for hours. It holds up nobody whom any replica can tell
// that it has not been committed: not where a router was started, nor where another
// replica was, or is gone.
func TestAPreparedTransactionHoldsUpNobody(t *testing.T) {
	t.Parallel()
	r, cluster, _ := newPreparingRig(t)
	serves := func(when string) {
		t.Helper()
		c := r.linear()
		defer c.close()
		for _, sql := range []string{"UPDATE agreed SET v = v + 1 WHERE k = 1", "SELECT v FROM agreed WHERE k = 1", "/* pgpilot: primary */ SELECT v FROM agreed WHERE k = 1"} {
			if _, err := c.run(sql); err != nil {
				t.Errorf("%s, %s: %v", when, sql, err)
			}
		}
	}
	again := func() {
		r.kill("router", 1)
		r.start("router", 1)
	}
	serves("it is pending")
	again()
	serves("a router was started")

	one, two := cluster.Replica(1), cluster.Replica(2)
	stop := func(m *lab.Member) {
		if err := m.Stop(timeout(t)); err != nil {
			t.Fatal(err)
		}
	}
	stop(one)
	serves("a replica is gone")
	if err := one.Start(timeout(t)); err != nil {
		t.Fatal(err)
	}
	r.awaitReplicas(one)
	serves("a replica was started")

	stop(one)
	stop(two)
	again()
	failed := r.linear().fails("UPDATE agreed SET v = v + 1 WHERE k = 1", "57P03")
	if !strings.Contains(failed.Hint, "pg_prepared_xacts") {
		t.Errorf("where nobody can tell, the hint is %q", failed.Hint)
	}
	if _, err := direct(t, cluster.Primary()).run("ROLLBACK PREPARED 'pending'"); err != nil {
		t.Fatal(err)
	}
	serves("it is resolved")
}

// Nor does it hold up a session of the mode causal while the replica is gone on which that has
// read: another one can tell.
func TestAPreparedTransactionHoldsUpNoCausalSession(t *testing.T) {
	t.Parallel()
	r, cluster, _ := newPreparingRig(t)
	c := r.connect()
	c.must("SET pgpilot.fencing = 'causal'")
	var read *lab.Member
	r.until("it has read on a replica", func() bool {
		c.must("SELECT v FROM agreed WHERE k = 1")
		on := c.route().Backend
		for _, m := range cluster.Replicas() {
			if m.Name == on {
				read = m
			}
		}
		return read != nil
	})
	if err := read.Stop(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.run("UPDATE agreed SET v = v + 1 WHERE k = 1"); err != nil {
		t.Error(err)
	}
}

// One that is being committed is waited for, also by a router that was started meanwhile:
// a replica shows it, and the primary does not.
func TestAPreparedTransactionThatCommitsIsWaitedFor(t *testing.T) {
	t.Parallel()
	r, cluster, su := newPreparingRig(t)
	committing, replica := direct(t, cluster.Primary()), direct(t, cluster.Replica(1))
	committing.must("SET synchronous_commit = on")
	su.must("SET synchronous_commit = local")
	su.must("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	su.must("SELECT pg_reload_conf()")
	r.until("there is a standby to wait for", func() bool { return committing.one("SHOW synchronous_standby_names") == "nobody" })
	if err := cluster.Replica(2).PauseReplay(timeout(t)); err != nil {
		t.Fatal(err)
	}
	committed := make(chan error, 1)
	go func() {
		_, err := committing.run("COMMIT PREPARED 'pending'")
		committed <- err
	}()
	r.until("the replica shows it", func() bool { return replica.one("SELECT count(*) FROM agreed WHERE k = 2") == "1" })
	const read = "/* pgpilot: primary */ SELECT count(*) FROM agreed WHERE k = 2"
	if got := su.one("SELECT count(*) FROM agreed WHERE k = 2"); got != "0" {
		t.Fatalf("the primary shows %s rows: nothing is proven", got)
	}
	r.linear().fails(read, "57P03")
	thaw := freeze(t, cluster, cluster.Replica(1))
	r.linear().fails(read, "57P03") // the other one, which has not committed it, is behind
	thaw()
	r.kill("router", 1)
	r.start("router", 1)
	c := r.linear()
	c.fails(read, "57P03")
	su.must("ALTER SYSTEM RESET synchronous_standby_names")
	su.must("SELECT pg_reload_conf()")
	if err := <-committed; err != nil {
		t.Fatal(err)
	}
	if got := c.one(read); got != "1" {
		t.Errorf("the primary shows %s rows once it may be used", got)
	}
}
