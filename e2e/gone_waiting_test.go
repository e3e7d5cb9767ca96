package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/rundir"
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

// Clients give up while no verdict on what they have asked for comes. It runs once there is one, or
// the time for it is over, and must not keep its connection.
func TestAClientGoneWhileItsStatementIsJudgedKeepsNothing(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(1))
	r.awaitReplicas(cluster.Replicas()...)
	watcher := direct(t, cluster.Primary())
	watcher.must("CREATE SEQUENCE ran; GRANT ALL ON ran TO PUBLIC")
	classifier := r.Service(rundir.Classifier, 1)
	for n, messages := range [][]pgproto3.FrontendMessage{
		{&pgproto3.Query{String: "SELECT pg_sleep(600) FROM nextval('ran')"}},
		{&pgproto3.Parse{Query: "SELECT pg_sleep(600) FROM nextval('ran') AS n"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}},
	} {
		if err := classifier.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		w := hijack(t, r.connect())
		for _, m := range messages {
			w.front.Send(m)
		}
		if err := w.front.Flush(); err != nil {
			t.Fatal(err)
		}
		_ = w.conn.Conn.Close()
		if err := classifier.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		r.until("it has begun", func() bool {
			return watcher.one("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ran") == fmt.Sprint(n+1)
		})
		r.until("it does not run any more", func() bool { return asleep(watcher) == "0" })
		r.connect().must("CREATE TABLE IF NOT EXISTS others_have_it (a int)")
	}
}
