package e2e

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/config"
)

// A connection for replication reaches the primary and has it for itself: the log is
// streamed to it while it sends what it likes (rule 30). Other sessions of the same
// user never get its connection.
func TestReplicationConnection(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	super := direct(t, cluster.Primary())
	super.must("ALTER ROLE pgpilot REPLICATION")
	r := newRig(t, cluster, narrow(3))
	writer := r.connect()
	writer.must("CREATE TABLE log (a int)")
	for _, kind := range []string{"true", "database"} {
		c, err := r.dial("application_name=streamer replication=" + kind)
		if err != nil {
			t.Fatal(err)
		}
		system := c.must("IDENTIFY_SYSTEM")
		w := hijack(t, c)
		w.front.Send(&pgproto3.Query{String: "START_REPLICATION PHYSICAL " + system[0][2]})
		if err := w.front.Flush(); err != nil {
			t.Fatal(err)
		}
		if m, err := w.front.Receive(); err != nil {
			t.Fatal(err)
		} else if _, ok := m.(*pgproto3.CopyBothResponse); !ok {
			t.Fatalf("the answer to START_REPLICATION begins with %T", m)
		}
		writer.must("INSERT INTO log SELECT generate_series(1, 10000)")
		// A status update of the standby, in which every position is the beginning: it is
		// not asked for.
		status := append([]byte{'r'}, make([]byte, 8+8+8+8+1)...)
		w.front.Send(&pgproto3.CopyData{Data: status})
		if err := w.front.Flush(); err != nil {
			t.Fatal(err)
		}
		streamed := 0
		for streamed < 100_000 {
			m, err := w.front.Receive()
			if err != nil {
				t.Fatal(err)
			}
			d, ok := m.(*pgproto3.CopyData)
			if !ok {
				t.Fatalf("%T while streaming", m)
			}
			streamed += len(d.Data)
		}
		const streamers = "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'streamer'"
		if got := super.one(streamers); got != "1" {
			t.Errorf("the primary streams to %s of it", got)
		}
		if err := w.conn.Conn.Close(); err != nil {
			t.Fatal(err)
		}
		r.until("its connection is gone", func() bool {
			return super.one(streamers) == "0"
		})
	}
	for range 6 {
		if got := writer.one("SELECT current_setting('application_name') || (SELECT count(*) FROM log)"); !strings.HasSuffix(got, "20000") {
			t.Errorf("an ordinary session reads %s", got)
		}
	}
}

// Whoever may not replicate is told so by the server.
func TestReplicationRefused(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	direct(t, cluster.Primary()).must("CREATE ROLE plain LOGIN PASSWORD 'plain'")
	r := newRig(t, cluster, func(c *config.Config) {
		c.Users = append(c.Users, config.User{Name: "plain", Password: "plain"})
	})
	if _, err := r.dial("user=plain password=plain replication=true"); sqlstate(err) != "42501" {
		t.Errorf("%v", err)
	}
	if _, err := r.dial("user=plain password=plain"); err != nil {
		t.Error(err)
	}
	if got := r.connect().one("SELECT 1"); got != "1" {
		t.Errorf("%s", got)
	}
}
