package e2e

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
)

func pause(t testing.TB, ms ...*lab.Member) {
	t.Helper()
	for _, m := range ms {
		if err := m.PauseReplay(timeout(t)); err != nil {
			t.Fatal(err)
		}
	}
}

func resume(t testing.TB, ms ...*lab.Member) {
	t.Helper()
	for _, m := range ms {
		if err := m.ResumeReplay(timeout(t)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReplayPausedEverywhere(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	for _, mode := range []string{config.Strict, config.Relaxed} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, cluster, func(c *config.Config) { c.Fencing.Mode = mode })
			crew := r.newCrew(16)
			pause(t, cluster.Replicas()...)
			crew.work(200)
			resume(t, cluster.Replicas()...)
			stale, onReplica := crew.totals()
			t.Logf("%d stale reads, %d reads on replicas", stale, onReplica)
			if mode == config.Strict {
				crew.mustBeSound()
			} else if stale == 0 {
				t.Error("relaxed reads saw no stale value: a strict run that sees none proves nothing")
			}
			r.caughtUp()
			r.awaitReplicas(cluster.Replicas()...)
			// The sessions whose fences were out of reach use replicas again.
			for _, h := range crew.hands {
				r.until(fmt.Sprintf("session %d reads from a replica", h.row), func() bool { return h.port() != cluster.Primary().Port })
			}
		})
	}
}

// A replica that was stopped hard starts again from its last restartpoint: it
// answers queries while it still replays what it had shown before.
func TestReplicaComesBackFarBehind(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	replica := cluster.Replica(2)
	reading, writing := r.newCrew(8), r.newCrew(8)
	leaveFarBehind(t, cluster, replica)
	reading.work(3) // and they only read from here on
	r.caughtUp()
	reading.watch()
	writing.start()
	writing.pass(3)
	r.awaitReplicas(cluster.Replicas()...)

	// Once it is back, it stands still at the first commit it has to replay: long
	// enough for everybody to hear that it is well.
	su := direct(t, replica)
	su.must("ALTER SYSTEM SET recovery_min_apply_delay = '1h'")
	if err := replica.Kill(timeout(t)); err != nil {
		t.Fatal(err)
	}
	r.until("the lagpoller misses the replica", func() bool { return r.metric("pgpilot_backend_healthy", "backend", replica.Name) == 0 })
	writing.pass(3)
	if err := replica.Start(timeout(t)); err != nil {
		t.Fatal(err)
	}
	r.until("the replica is well", func() bool { return r.metric("pgpilot_backend_healthy", "backend", replica.Name) == 1 })
	su = direct(t, replica)
	h := reading.hands[0]
	if got := su.one(fmt.Sprintf("SELECT v FROM crew WHERE hand = %d", h.row)); got == fmt.Sprint(h.written.Load()) {
		t.Error("the replica has not come back with old rows: nothing is proven")
	}
	reading.pass(100)
	writing.pass(100)

	su.must("ALTER SYSTEM RESET recovery_min_apply_delay")
	r.until("the replica reads its configuration again", func() bool { // what is replayed may cancel the statement
		_, err := su.run("SELECT pg_reload_conf()")
		return err == nil
	})
	r.awaitReplicas(cluster.Replicas()...)
	r.until("a session reads from it that has written before", func() bool {
		for _, h := range reading.hands {
			if h.lastPort.Load() == int64(replica.Port) {
				return true
			}
		}
		return false
	})
	writing.pass(10)
	reading.stop()
	writing.stop()
	reading.mustBeSound()
	writing.mustBeSound()
}

// leaveFarBehind writes so much after a restartpoint of the replica that its next
// start has long to replay. It writes nearly no pages: the replica's control file
// then lets it answer queries early, far from where it was.
func leaveFarBehind(t testing.TB, cluster *lab.Cluster, replica *lab.Member) {
	t.Helper()
	su := direct(t, cluster.Primary())
	defer su.close()
	su.must("CREATE TABLE few AS SELECT g AS id, 0 AS v FROM generate_series(1, 100) g")
	su.must("CHECKPOINT")
	if err := cluster.WaitCaughtUp(timeout(t)); err != nil {
		t.Fatal(err)
	}
	direct(t, replica).must("CHECKPOINT")
	su.must("SELECT count(pg_logical_emit_message(false, 'bulk', repeat('x', 1000000))) FROM generate_series(1, 150)")
	su.must("DO $$BEGIN FOR n IN 1..500 LOOP UPDATE few SET v = n; END LOOP; END$$")
}

// When one backend is killed, its server ends every session and replays again from
// its last restartpoint, under the same postmaster.
func TestReplicaBackendKilled(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	replica := cluster.Replica(1)
	leaveFarBehind(t, cluster, replica)
	reading, writing := r.newCrew(8), r.newCrew(8)
	reading.work(3)
	reading.watch()
	writing.start()
	r.awaitReplicas(cluster.Replicas()...)

	victim, err := strconv.Atoi(direct(t, replica).one("SELECT pg_backend_pid()"))
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.KillBackend(timeout(t), victim); err != nil {
		t.Fatal(err)
	}
	writing.pass(3)
	if err := replica.WaitReady(timeout(t)); err != nil {
		t.Fatal(err)
	}
	r.awaitReplicas(cluster.Replicas()...)
	reading.pass(10)
	writing.pass(10)
	reading.stop()
	writing.stop()
	reading.mustBeSound()
	writing.mustBeSound()
}
