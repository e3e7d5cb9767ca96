package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// writeThenRead writes and reads again until a replica has served that, n times. Every
// read must show what was written.
func (r *rig) writeThenRead(c *client, n int) {
	r.t.Helper()
	for i := range n {
		c.must(fmt.Sprintf("UPDATE note SET v = %d WHERE id = 1", i))
		r.until("a replica serves the session behind its write", func() bool {
			if got := c.one("SELECT v FROM note WHERE id = 1"); got != fmt.Sprint(i) {
				r.t.Fatalf("read %s behind a write of %d", got, i)
			}
			return c.route().Role == "replica"
		})
	}
}

// noting gives a session that reads and writes the table note, which replicas know.
func (r *rig) noting() *client {
	r.t.Helper()
	c := r.connect()
	c.must("CREATE TABLE note AS SELECT 1 AS id, -1 AS v")
	r.readsOnReplica(c, "SELECT v FROM note WHERE id = 1")
	return c
}

// The router asks replicas itself how far they have replayed: sessions that write read
// from replicas also while there is no lagpoller at all.
func TestReadsFollowWritesWithoutALagpoller(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	c := r.noting()
	r.kill(rundir.Lagpoller, 1)
	before := r.metric("pgpilot_fence_replay_probes_total")
	r.writeThenRead(c, 20)
	if got := r.metric("pgpilot_fence_replay_probes_total"); got == before {
		t.Error("no replica was asked: who has told the router?")
	}
}

// A server has room for a limited number of connections for replication. Where there is
// none for the router, lagpollers ask the replicas, as before the first answer.
func TestReadsFollowWritesWhereReplicasHaveNoRoom(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c := r.noting()
	r.until("replicas are asked", func() bool {
		r.writeThenRead(c, 1)
		return r.metric("pgpilot_fence_replay_probes_total") > 0
	})
	r.kill(rundir.Router, 1)
	var taken []*pgconn.PgConn
	for _, m := range cluster.Replicas() {
		su := direct(t, m)
		r.until("the router's connection to "+m.Name+" has ended", func() bool { // it would leave room behind
			return su.one("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender' AND application_name <> 'pgpilot-lagpoller'") == "0"
		})
		su.close()
		taken = append(taken, takeWALSenders(t, m)...)
	}
	r.start(rundir.Router, 1)
	c = r.connect()
	r.readsOnReplica(c, "SELECT v FROM note WHERE id = 1")
	r.writeThenRead(c, 5)
	if got := r.metric("pgpilot_fence_replay_probes_total"); got != 0 {
		t.Errorf("replicas were asked %v times: they had room", got)
	}
	if got := r.metric("pgpilot_fence_replay_probe_failures_total"); got == 0 {
		t.Error("no connection was refused: nothing is proven")
	}
	for _, conn := range taken {
		if err := conn.Close(timeout(t)); err != nil {
			t.Fatal(err)
		}
	}
	r.until("replicas that have room again are asked", func() bool {
		r.writeThenRead(c, 1)
		return r.metric("pgpilot_fence_replay_probes_total") > 0
	})
}

// takeWALSenders takes all the room that the server has left for connections for
// replication.
func takeWALSenders(t *testing.T, m *lab.Member) (taken []*pgconn.PgConn) {
	t.Helper()
	cfg, err := pgconn.ParseConfig(m.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["replication"] = "database"
	for {
		conn, err := pgconn.ConnectConfig(timeout(t), cfg)
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == "53300" {
			return taken
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		taken = append(taken, conn)
	}
}
