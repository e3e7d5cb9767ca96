package e2e

import (
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Clients give up while the pool is exhausted. What they have asked for runs once there is a
// connection, and must not keep it: nobody waits for the answer.
func TestAClientGoneWhileItWaitsKeepsNothing(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(1))
	r.awaitReplicas(cluster.Replicas()...)
	holder, waiting := r.connect(), r.connect()
	holder.must("CREATE TABLE awaited (a int)")
	waiting.must("UPDATE awaited SET a = 1")
	holder.must("BEGIN")
	holder.must("UPDATE awaited SET a = 2")
	w := hijack(t, waiting)
	w.front.SendQuery(&pgproto3.Query{String: "UPDATE awaited SET a = 3 WHERE pg_sleep(600) IS NULL OR a = 4"})
	w.front.SendQuery(&pgproto3.Query{String: "SELECT pg_sleep(600) FROM awaited FOR UPDATE"})
	if err := w.front.Flush(); err != nil {
		t.Fatal(err)
	}
	r.until("it waits for the connection", func() bool { return r.metric("pgpilot_pool_waiters", "backend", cluster.Primary().Name) == 1 })
	_ = w.conn.Conn.Close()
	other := direct(t, cluster.Primary())
	other.must("INSERT INTO awaited VALUES (1)")
	holder.must("COMMIT")
	r.until("nothing of it runs any more, and others have the connection", func() bool {
		return other.one("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()") == "0" &&
			r.metric("pgpilot_pool_waiters", "backend", cluster.Primary().Name) == 0
	})
	holder.must("UPDATE awaited SET a = 5")
}

// What a client has sent behind the statement that runs says nothing of whether it is there.
func TestAClientGoneWithMoreToServeKeepsNothing(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(1))
	all := []*client{direct(t, cluster.Primary())}
	w := hijack(t, r.connect())
	for range 3 {
		w.front.SendQuery(&pgproto3.Query{String: "SELECT pg_sleep(600), pg_advisory_xact_lock(1)"})
	}
	if err := w.front.Flush(); err != nil {
		t.Fatal(err)
	}
	awaitSleep(t, all)
	_ = w.conn.Conn.Close()
	r.until("nothing of it runs any more", func() bool {
		return all[0].one("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()") == "0"
	})
	r.connect().must("CREATE TABLE others_have_it (a int)")
}
