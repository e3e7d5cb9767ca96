package e2e

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// keeper is a session with something that it must not lose.
type keeper struct {
	*client
	name string
	// check fails the test if it has lost it. It may be called again and again.
	check func()
}

// keepers opens a session of every kind.
func (r *rig) keepers() []keeper {
	r.t.Helper()
	owner := r.connect()
	owner.must("CREATE TABLE IF NOT EXISTS kept (who text, n int); CREATE SEQUENCE IF NOT EXISTS steps; DELETE FROM kept")
	var ks []keeper
	add := func(name string, begin func(c *client) (check func())) {
		c := r.connect()
		ks = append(ks, keeper{c, name, begin(c)})
	}
	add("idle", func(c *client) func() {
		return func() { c.must("SELECT 1") }
	})
	add("writing", func(c *client) func() {
		n := 0
		return func() {
			n++
			c.must("INSERT INTO kept VALUES ('writing', " + strconv.Itoa(n) + ")")
			if got := c.one("SELECT max(n) FROM kept WHERE who = 'writing'"); got != strconv.Itoa(n) {
				r.t.Errorf("after its write number %d a session reads %s", n, got)
			}
		}
	})
	add("settings", func(c *client) func() {
		c.must("SET search_path TO pg_catalog; SET TimeZone TO 'Asia/Tokyo'; SET app.who TO 'seven'")
		return func() {
			if got := c.one("SELECT current_setting('TimeZone') || current_setting('app.who') || current_setting('search_path')"); got != "Asia/Tokyosevenpg_catalog" {
				r.t.Errorf("what has been set is %s", got)
			}
		}
	})
	add("in a transaction", func(c *client) func() {
		c.must("BEGIN; INSERT INTO kept VALUES ('open', 1); SET LOCAL work_mem TO '7MB'; SAVEPOINT s; INSERT INTO kept VALUES ('open', 2)")
		n := 2
		return func() {
			if got := c.one("SELECT count(*) || current_setting('work_mem') FROM kept WHERE who = 'open'"); got != strconv.Itoa(n)+"7MB" {
				r.t.Errorf("in its transaction it sees %s", got)
			}
			n++
			c.must(fmt.Sprintf("INSERT INTO kept VALUES ('open', %d)", n))
		}
	})
	add("in a failed transaction", func(c *client) func() {
		c.must("BEGIN")
		c.fails("SELECT 1/0", "22012")
		return func() { c.fails("SELECT 1", "25P02") }
	})
	add("temporary table", func(c *client) func() {
		c.must("CREATE TEMP TABLE mine AS SELECT 42 AS x")
		return func() {
			if got := c.one("SELECT x FROM mine"); got != "42" {
				r.t.Errorf("its temporary table holds %s", got)
			}
		}
	})
	add("advisory lock", func(c *client) func() {
		c.must("SELECT pg_advisory_lock(77)")
		return func() {
			if got := c.one("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND pid = pg_backend_pid()"); got != "1" {
				r.t.Errorf("it holds %s locks", got)
			}
		}
	})
	add("listening", func(c *client) func() {
		c.must("LISTEN news")
		return func() {
			owner.must("NOTIFY news, 'hello'")
			if err := c.conn.WaitForNotification(timeout(r.t)); err != nil {
				r.t.Errorf("no notification: %v", err)
			}
		}
	})
	add("prepared", func(c *client) func() {
		if _, err := c.conn.Prepare(timeout(r.t), "p", "SELECT $1::int + 1", nil); err != nil {
			r.t.Fatal(err)
		}
		return func() {
			res := c.conn.ExecPrepared(timeout(r.t), "p", [][]byte{[]byte("41")}, nil, nil).Read()
			if res.Err != nil || len(res.Rows) != 1 || string(res.Rows[0][0]) != "42" {
				r.t.Errorf("its prepared statement gives %v, %v", res.Rows, res.Err)
			}
		}
	})
	add("cursor", func(c *client) func() {
		c.must("BEGIN; DECLARE c CURSOR FOR SELECT generate_series(1, 1000)")
		n := 0
		return func() {
			n++
			if got := c.one("FETCH c"); got != strconv.Itoa(n) {
				r.t.Errorf("its cursor is at %s instead of %d", got, n)
			}
		}
	})
	return ks
}

// checkAll checks what the sessions keep, and that they are alive.
func checkAll(t *testing.T, when string, ks []keeper) {
	t.Helper()
	for _, k := range ks {
		if k.gone() {
			t.Fatalf("%s: the session %q is gone", when, k.name)
		}
		k.check()
		if t.Failed() {
			t.Fatalf("%s: the session %q has lost something", when, k.name)
		}
	}
}

// A router that stops gives all its sessions to the other one, without a word to their
// clients, and is gone soon.
func TestSessionsMoveToTheOtherRouter(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	for _, mode := range []string{config.Transaction, config.Session} {
		t.Run(mode, func(t *testing.T) {
			r := rigOf(t, stacktest.Options{Lab: cluster, Routers: 2}, func(c *config.Config) {
				patientDrain(c)
				c.Pool.Mode = mode
			})
			ks := r.keepers()
			checkAll(t, "before", ks)
			for round := range 4 {
				if err := r.Service(rundir.Router, 1+round%2).Restart(timeout(t)); err != nil {
					t.Fatal(err)
				}
				checkAll(t, fmt.Sprintf("after restart %d", round+1), ks)
			}
			if n := r.metric("pgpilot_router_sessions_arrived_total"); n != float64(len(ks)+1) {
				t.Errorf("%v sessions have come to the router that has restarted last but one, which has all %d", n, len(ks)+1)
			}
		})
	}
}

// The sessions of the only router wait in the listener until it is back.
func TestSessionsWaitForTheirOnlyRouter(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	ks := r.keepers()
	checkAll(t, "before", ks)
	if err := r.Service(rundir.Router, 1).Terminate(timeout(t)); err != nil {
		t.Fatal(err)
	}
	r.until("all of them are parked", func() bool { return r.metric("pgpilot_listener_parked") == float64(len(ks)+1) })

	leaves := ks[3] // in a transaction
	leaves.close()
	r.until("the one that has left is not there any more", func() bool { return r.metric("pgpilot_listener_parked") == float64(len(ks)) })

	r.start(rundir.Router, 1)
	var rest []keeper
	for _, k := range ks {
		if k.client != leaves.client {
			rest = append(rest, k)
		}
	}
	checkAll(t, "after the restart", rest)
	if got := rest[1].one("SELECT count(*) FROM kept WHERE who = 'open'"); got != "0" {
		t.Errorf("%s rows of the transaction are there whose client has left", got)
	}
	r.until("nobody is parked", func() bool { return r.metric("pgpilot_listener_parked") == 0 })
}

// What a session's sequences have given is known on one connection only: it goes along,
// though the session does not hold it.
func TestSequencesMove(t *testing.T) {
	t.Parallel()
	r := rigOf(t, stacktest.Options{Lab: newCluster(t), Routers: 2}, nil)
	c := r.connect()
	c.must("CREATE SEQUENCE steps")
	want := c.one("SELECT nextval('steps')")
	for router := range 2 {
		if err := r.Service(rundir.Router, 1+router).Restart(timeout(t)); err != nil {
			t.Fatal(err)
		}
		if got := c.one("SELECT currval('steps')"); got != want {
			t.Errorf("its sequence is at %s instead of %s", got, want)
		}
	}
}

// A client's cancel key stops what it runs after it has moved.
func TestCancelAfterAMove(t *testing.T) {
	t.Parallel()
	r := rigOf(t, stacktest.Options{Lab: newCluster(t), Routers: 2}, nil)
	c := r.connect()
	c.must("SELECT 1")
	for round := range 2 {
		if err := r.Service(rundir.Router, 1+round).Restart(timeout(t)); err != nil {
			t.Fatal(err)
		}
	}
	failed := make(chan error, 1)
	go func() {
		_, err := c.run("SELECT pg_sleep(60)")
		failed <- err
	}()
	var watchers []*client
	for _, m := range r.Lab.Members() {
		watchers = append(watchers, direct(t, m))
	}
	r.until("it runs", func() bool {
		n := 0
		for _, w := range watchers {
			if w.one("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%'") != "0" {
				n++
			}
		}
		return n > 0
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.conn.CancelRequest(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; sqlstate(err) != "57014" {
		t.Errorf("it ends with %v", err)
	}
	c.must("SELECT 1")
}

// Clients that never stop see nothing of routers that are restarted one after the other,
// and no session is lost.
func TestRoutersAreRestartedUnderLoad(t *testing.T) {
	t.Parallel()
	r := rigOf(t, stacktest.Options{Lab: newCluster(t), Routers: 2}, nil)
	owner := r.connect()
	owner.must("CREATE TABLE busy (who int PRIMARY KEY, n int)")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for who := range 12 {
		owner.must(fmt.Sprintf("INSERT INTO busy VALUES (%d, 0)", who))
		c := r.connect()
		wg.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				sql := fmt.Sprintf("UPDATE busy SET n = %d WHERE who = %d", n, who)
				if who%3 == 0 {
					sql = "BEGIN; " + sql + "; COMMIT"
				}
				if _, err := c.run(sql); err != nil {
					t.Errorf("client %d: write %d: %v", who, n, err)
					return
				}
				rows, err := c.run(fmt.Sprintf("SELECT n FROM busy WHERE who = %d", who))
				if err != nil || len(rows) != 1 || rows[0][0] != strconv.Itoa(n) {
					t.Errorf("client %d: read %v after write %d: %v", who, rows, n, err)
					return
				}
			}
		})
	}
	for round := range 4 {
		began := time.Now()
		if err := r.Service(rundir.Router, 1+round%2).Restart(timeout(t)); err != nil {
			t.Error(err)
		}
		t.Logf("restart %d took %s", round, time.Since(began).Round(time.Millisecond))
	}
	close(stop)
	wg.Wait()
}

// Idle sessions go to a router that comes, and go on there.
func TestIdleSessionsGoToANewRouter(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	var cs []*client
	for range 60 {
		cs = append(cs, r.connect())
	}
	busy := r.connect()
	busy.must("BEGIN")
	if _, err := r.AddRouter(timeout(t)); err != nil {
		t.Fatal(err)
	}
	r.until("the new router has its part", func() bool { return r.sessionsOn(2) >= 25 })
	if n := r.sessionsOn(1); n < 25 {
		t.Errorf("the old one has only %d left", n)
	}
	for _, c := range cs {
		c.must("SELECT 1")
	}
	busy.must("COMMIT")
}

// Sessions over TLS move as others do: their TLS connections stay in the listener. One
// that is bound to a server connection over TLS cannot: its router keeps that, and it
// ends after drain.timeout.
func TestSessionsOverTLSMove(t *testing.T) {
	t.Parallel()
	r, authority := encrypted(t, stacktest.Options{Routers: 2})
	free, err := r.dial(secure(authority))
	if err != nil {
		t.Fatal(err)
	}
	free.must("CREATE TABLE seen (n int)")
	free.must("SET app.who TO 'me'")
	bound, err := r.dial(secure(authority))
	if err != nil {
		t.Fatal(err)
	}
	bound.must("CREATE TEMP TABLE mine (x int)")
	for router := range 2 {
		free.must(fmt.Sprintf("INSERT INTO seen VALUES (%d)", router))
		if err := r.Service(rundir.Router, 1+router).Restart(timeout(t)); err != nil {
			t.Fatal(err)
		}
		if got := free.one("SELECT count(*) || current_setting('app.who') FROM seen"); got != strconv.Itoa(router+1)+"me" {
			t.Errorf("after restart %d it sees %s", router+1, got)
		}
	}
	if _, err := bound.run("SELECT * FROM mine"); sqlstate(err) != "57P01" {
		t.Errorf("the session that is bound: %v", err)
	}
}
