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

// A name that stands for a statement which the router executes itself is taken, as every
// other one is, and PREPARE under it leaves nothing that another session could run.
func TestPreparedStatementsOfTheRoutersOwnTakeTheirNames(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(1))
	c, other := r.connect(), r.connect()
	for _, own := range []string{"DEALLOCATE ALL", "DEALLOCATE y", "SHOW pgpilot.route"} {
		if _, err := c.conn.Prepare(timeout(t), "d", own, nil); err != nil {
			t.Fatal(err)
		}
		const prepare = "PREPARE d AS SELECT 'of another session'"
		c.fails(prepare, "42P05")
		other.fails("EXECUTE d", "26000")
		other.must("PREPARE d AS SELECT 'its own'")
		if got := other.one("EXECUTE d"); got != "its own" {
			t.Errorf("%s: another session's d gives %q", own, got)
		}
		other.must("DEALLOCATE d")
		c.must("BEGIN")
		if e := c.fails(prepare, "42P05"); e != nil && e.Message != `prepared statement "d" already exists` {
			t.Errorf("%s: %v", own, e)
		}
		c.fails("SELECT 1", "25P02")
		c.must("ROLLBACK")
		c.fails("EXECUTE d", "26000")
		if got := c.boundBy(); got != "" {
			t.Errorf("%s: the session is bound to its connection: %s", own, got)
		}
		if result := c.conn.ExecPrepared(timeout(t), "d", nil, nil, nil).Read(); (result.Err == nil) == (own == "DEALLOCATE y") {
			t.Errorf("%s, by Bind: %v", own, result.Err)
		}
		if own == "DEALLOCATE ALL" { // it is gone with the others
			if _, err := c.conn.Prepare(timeout(t), "d", own, nil); err != nil {
				t.Fatal(err)
			}
		}
		if result := c.conn.ExecParams(timeout(t), prepare, nil, nil, nil, nil).Read(); sqlstate(result.Err) != "42P05" {
			t.Errorf("%s, in the extended protocol: %v", own, result.Err)
		}
		c.must("DISCARD ALL") // that has bound the session
		c.must("PREPARE d AS SELECT 'in its place'")
		if got := c.one("EXECUTE d"); got != "in its place" {
			t.Errorf("%s: a name that is free gives %q", own, got)
		}
		c.must("DEALLOCATE d")
	}
}

// A cancel request that comes while a connection is given what the session has prepared is
// for the statement that waits for that.
func TestCancelWhileStatementsArePreparedUnseen(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(1))
	c, other, holder := r.connect(), r.connect(), direct(t, cluster.Primary())
	c.must("CREATE TABLE locked (a int); CREATE TABLE kept (a int)")
	r.caughtUp()
	c.must("DISCARD ALL")
	c.must("PREPARE p AS SELECT count(*) FROM locked")
	for _, begin := range []string{"", "BEGIN"} {
		other.must("INSERT INTO kept SELECT 0 WHERE false") // the connection is as it was before
		if begin != "" {
			c.must(begin)
			c.must("INSERT INTO kept VALUES (1)")
		}
		holder.must("BEGIN; LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")
		done := make(chan error, 1)
		go func() {
			_, err := c.run("INSERT INTO kept SELECT length('execute')")
			done <- err
		}()
		await(t, "what is prepared waits for the table", func() bool {
			return holder.one("SELECT count(*) FROM pg_locks WHERE relation = 'locked'::regclass AND NOT granted") != "0"
		})
		c.cancel()
		if err := <-done; sqlstate(err) != "57014" {
			t.Errorf("%q: what is canceled: %v", begin, err)
		}
		holder.must("ROLLBACK")
		if begin != "" {
			c.fails("INSERT INTO kept VALUES (2)", "25P02")
			c.must("ROLLBACK")
		}
		if got := c.one("EXECUTE p"); got != "0" {
			t.Errorf("%q: afterwards EXECUTE gives %s", begin, got)
		}
		if got := holder.one("SELECT count(*) FROM kept"); got != "0" {
			t.Errorf("%q: %s rows are there", begin, got)
		}
	}
}
