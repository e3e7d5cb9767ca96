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
	cluster := newCluster(t)
	for _, mode := range []string{config.Strict, config.Relaxed} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, cluster, func(c *config.Config) { c.Fencing.Mode = mode })
			crew := r.newCrew(16)
			pause(t, cluster.Replicas()...)
			crew.work(1000)
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
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	replica := cluster.Replica(2)
	su := direct(t, cluster.Primary())

	// Far behind the last restartpoint, and nothing that would set another.
	su.must("CHECKPOINT")
	su.must("CREATE TABLE bulk AS SELECT g, repeat('x', 200) AS pad FROM generate_series(1, 500000) g")
	su.must("UPDATE bulk SET pad = pad || 'y' WHERE g % 5 = 0")
	reading := r.newCrew(8) // have written before, and only read from here on
	reading.work(3)
	writing := r.newCrew(8)
	r.caughtUp()
	reading.watch()
	writing.start()
	writing.pass(3)
	r.awaitReplicas(cluster.Replicas()...)
	if err := replica.Kill(timeout(t)); err != nil {
		t.Fatal(err)
	}
	writing.pass(3)
	start := make(chan error, 1)
	go func() { start <- replica.Start(timeout(t)) }()
	if old := firstSight(t, replica, reading.hands[0]); old {
		t.Log("the replica showed older rows than before when it came back: reading there would have been stale")
	}
	if err := <-start; err != nil {
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

// firstSight connects to a starting server as soon as it accepts anybody, and
// reports whether it does not show what the session has written.
func firstSight(t testing.TB, m *lab.Member, h *hand) (old bool) {
	t.Helper()
	var c *client
	await(t, m.Name+" accepts a connection", func() bool {
		var err error
		c, err = dial(t, m.SuperDSN())
		return err == nil
	})
	defer c.close()
	rows, err := c.run(fmt.Sprintf("SELECT v FROM crew WHERE hand = %d", h.row))
	return err != nil || len(rows) != 1 || rows[0][0] != fmt.Sprint(h.written.Load())
}

// When one backend is killed, its server ends every session and replays again from
// its last restartpoint, under the same postmaster.
func TestReplicaBackendKilled(t *testing.T) {
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	replica := cluster.Replica(1)
	su := direct(t, cluster.Primary())
	su.must("CHECKPOINT")
	su.must("CREATE TABLE bulk AS SELECT g, repeat('x', 200) AS pad FROM generate_series(1, 100000) g")
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
