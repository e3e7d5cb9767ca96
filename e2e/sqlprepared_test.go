package e2e

import (
	"fmt"
	"sync"
	"testing"
)

// Sessions that prepare different things with SQL, under the same names, share a single
// connection to each server: each runs its own, reads run on replicas, and nobody is bound
// to a connection (rules 16 and 25).
func TestSQLPreparedStatementsAreTheSessions(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(1))
	r.connect().must("CREATE TABLE counts (who int, n int); INSERT INTO counts SELECT g, 0 FROM generate_series(0, 3) g")
	r.caughtUp()
	const rounds = 40
	onReplica := make([]int, 4)
	var all sync.WaitGroup
	for i := range onReplica {
		c := r.connect()
		all.Go(func() {
			for _, sql := range []string{
				fmt.Sprintf("PREPARE see AS SELECT n + 1000 * %d, inet_server_port() FROM counts WHERE who = %d", i, i),
				fmt.Sprintf("PREPARE add (int) AS UPDATE counts SET n = n + $1 WHERE who = %d", i),
			} {
				if _, err := c.run(sql); err != nil {
					t.Error(err)
					return
				}
			}
			if _, err := c.run("BEGIN; PREPARE kept AS SELECT 7; ROLLBACK"); err != nil {
				t.Error(err)
			}
			if _, err := c.run("DISCARD ALL"); err != nil { // several in one string bind
				t.Error(err)
			}
			for _, sql := range []string{
				fmt.Sprintf("PREPARE see AS SELECT n + 1000 * %d, inet_server_port() FROM counts WHERE who = %d", i, i),
				fmt.Sprintf("PREPARE add (int) AS UPDATE counts SET n = n + $1 WHERE who = %d", i),
				"BEGIN", "PREPARE kept AS SELECT 7", "ROLLBACK", // which does not undo it
			} {
				if _, err := c.run(sql); err != nil {
					t.Error(err)
					return
				}
			}
			for round := range rounds {
				if round%4 == 0 {
					if _, err := c.run("EXECUTE add(2)"); err != nil {
						t.Error(err)
					}
				}
				want := fmt.Sprint(1000*i + 2*(round/4+1))
				rows, err := c.run("EXECUTE see")
				if err != nil || rows[0][0] != want {
					t.Errorf("session %d sees %v (%v), want %s", i, rows, err, want)
					return
				}
				if rows[0][1] != fmt.Sprint(cluster.Primary().Port) {
					onReplica[i]++
				}
			}
			if rows, err := c.run("EXECUTE kept"); err != nil || rows[0][0] != "7" {
				t.Errorf("what was prepared in a transaction that was rolled back: %v, %v", rows, err)
			}
			if got := c.boundBy(); got != "" {
				t.Errorf("session %d is bound to its connection: %s", i, got)
			}
			if _, err := c.run("DEALLOCATE see"); err != nil {
				t.Error(err)
			}
			if _, err := c.run("EXECUTE see"); sqlstate(err) != "26000" {
				t.Errorf("what is deallocated: %v", err)
			}
			if _, err := c.conn.Prepare(timeout(t), "parsed", "SELECT 11", nil); err != nil {
				t.Error(err)
			}
			if rows, err := c.run("EXECUTE parsed"); err != nil || rows[0][0] != "11" {
				t.Errorf("what was prepared with Parse: %v, %v", rows, err)
			}
			if _, err := c.run("PREPARE parsed AS SELECT 12"); sqlstate(err) != "42P05" {
				t.Errorf("a name that is taken: %v", err)
			}
			if r := c.conn.ExecPrepared(timeout(t), "kept", nil, nil, nil).Read(); r.Err != nil || string(r.Rows[0][0]) != "7" {
				t.Errorf("what was prepared with SQL, by Bind: %v", r.Err)
			}
		})
	}
	all.Wait()
	for i, n := range onReplica {
		if n == 0 {
			t.Errorf("no read of session %d ran on a replica", i)
		}
	}
}
