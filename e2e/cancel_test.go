package e2e

import (
	"fmt"
	"sync"
	"testing"
)

// cancel sends a cancel request for what the session runs, and returns when it has
// been taken.
func (c *client) cancel() {
	c.t.Helper()
	if err := c.conn.CancelRequest(timeout(c.t)); err != nil {
		c.t.Errorf("cancel request: %v", err)
	}
}

// awaitSleep waits until one of the servers watched runs pg_sleep(600).
func awaitSleep(t testing.TB, watchers []*client) {
	t.Helper()
	await(t, "the statement runs", func() bool {
		for _, w := range watchers {
			if w.one("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()") != "0" {
				return true
			}
		}
		return false
	})
}

// awaitLock waits until a statement on the server waits for an advisory lock.
func awaitLock(t testing.TB, watcher *client) {
	t.Helper()
	await(t, "a statement waits for the lock", func() bool {
		return watcher.one("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") != "0"
	})
}

func TestCancelReachesTheStatement(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c := r.connect()
	c.must("CREATE TABLE nothing (a int)")
	r.until("the session reads from a replica", func() bool { return c.port() != cluster.Primary().Port })
	var all []*client
	for _, m := range cluster.Members() {
		all = append(all, direct(t, m))
	}
	for name, where := range map[string]struct {
		sql      string
		watchers []*client
	}{
		"on a replica":     {"SELECT pg_sleep(600)", all},
		"on the primary":   {"WITH w AS (DELETE FROM nothing) SELECT pg_sleep(600)", all[:1]},
		"in a transaction": {"BEGIN; SELECT pg_sleep(600)", all[:1]},
		"after some rows":  {"SELECT repeat('x', 10000), CASE WHEN g = 50 THEN pg_sleep(600) END FROM generate_series(1, 50) g", all},
	} {
		t.Run(name, func(t *testing.T) {
			done := make(chan error, 1)
			go func() {
				_, err := c.run(where.sql)
				done <- err
			}()
			awaitSleep(t, where.watchers)
			c.cancel()
			if err := <-done; sqlstate(err) != "57014" {
				t.Errorf("got %v", err)
			}
			if _, err := c.run("ROLLBACK; SELECT 1"); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// A cancel that comes as its statement ends must not reach the next statement on
// the server's connection, which is another session's.
func TestLateCancelHitsNobodyElse(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(1))
	victim := r.connect()
	victim.must("CREATE TABLE mine (a int)")
	r.caughtUp()
	for name, sql := range map[string]struct{ canceled, next string }{
		"replica": {"SELECT pg_sleep(%f)", "SELECT count(*) FROM generate_series(1, 3000)"},
		"primary": {"INSERT INTO mine SELECT 1 FROM pg_sleep(%f)", "DELETE FROM mine WHERE a = 2"},
	} {
		t.Run(name, func(t *testing.T) {
			canceler := r.connect()
			canceled := 0
			for i := range 200 {
				// From too short for a cancel request to too long, so that some requests
				// come just as their statement ends.
				statement := fmt.Sprintf(sql.canceled, float64(i)*20e-6)
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := canceler.run(statement); sqlstate(err) == "57014" {
						canceled++
					} else if err != nil {
						t.Errorf("the statement that is canceled: %v", err)
					}
				})
				wg.Go(canceler.cancel)
				wg.Go(func() {
					for range 5 {
						if _, err := victim.run(sql.next); err != nil {
							t.Errorf("the other session: %v", err)
						}
					}
				})
				wg.Wait()
			}
			t.Logf("%d of 200 statements were canceled", canceled)
		})
	}
}

// Once a statement and the cancel request for it are over, the session's own next
// statement is safe.
func TestCancelIsOverWithItsStatement(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c := r.connect()
	var watchers []*client
	for _, m := range cluster.Members() {
		watchers = append(watchers, direct(t, m))
	}
	for range 50 {
		done := make(chan error, 1)
		go func() {
			_, err := c.run("SELECT pg_sleep(600)")
			done <- err
		}()
		awaitSleep(t, watchers)
		c.cancel()
		if err := <-done; sqlstate(err) != "57014" {
			t.Fatalf("got %v", err)
		}
		c.must("SELECT count(*) FROM generate_series(1, 3000)")
	}
}

// A session that queues for a connection is canceled without one.
func TestCancelOfAQueuedStatement(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(1))
	holder, waiter := r.connect(), r.connect()
	waiter.must("SELECT 1")
	holder.must("BEGIN; SELECT 1")
	done := make(chan error, 1)
	go func() {
		_, err := waiter.run("CREATE TABLE never (a int)")
		done <- err
	}()
	r.until("the statement waits", func() bool { return r.metric("pgpilot_pool_waiters", "backend", "primary") == 1 })
	waiter.cancel()
	if err := <-done; sqlstate(err) != "57014" {
		t.Errorf("got %v", err)
	}
	holder.must("COMMIT")
	waiter.must("CREATE TABLE afterwards (a int)")
	if got := waiter.one("SELECT to_regclass('never') IS NULL"); got != "t" {
		t.Error("the canceled statement has run")
	}
}
