package e2e

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// sessionsOn counts the sessions of a router.
func (r *rig) sessionsOn(router int) int {
	r.t.Helper()
	of := func(name string) float64 { return r.metric(name, "instance", strconv.Itoa(router)) }
	return int(of("pgpilot_sessions_opened_total") + of("pgpilot_router_sessions_arrived_total") -
		of("pgpilot_sessions_closed_total") - of("pgpilot_router_sessions_moved_total"))
}

func TestRouterKilledDropsOnlyItsOwnSessions(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := rigOf(t, stacktest.Options{Lab: cluster, Routers: 2}, nil)
	r.until("the sessions of the start are over", func() bool { return r.sessionsOn(1)+r.sessionsOn(2) == 0 })
	var sessions []*client
	for range 12 {
		sessions = append(sessions, r.connect())
	}
	first, second := r.sessionsOn(1), r.sessionsOn(2)
	if first != 6 || second != 6 {
		t.Fatalf("%d sessions on one router, %d on the other", first, second)
	}

	r.kill(rundir.Router, 1)
	for range 20 { // at once: the listener need not have noticed
		c := r.connect()
		c.must("SELECT 1")
		c.close()
	}
	lived := 0
	for _, c := range sessions {
		if _, err := c.run("SELECT 1"); err == nil {
			lived++
		} else if !c.gone() {
			t.Errorf("neither dead nor alive: %v", err)
		}
	}
	if lived != second {
		t.Errorf("%d sessions live, want the %d of the other router", lived, second)
	}

	r.start(rundir.Router, 1)
	r.until("the listener has both routers", func() bool { return r.metric("pgpilot_listener_routers") == 2 })
	c := r.connect()
	c.must("SELECT 1")
	if r.sessionsOn(1) != 1 {
		t.Error("the least loaded router did not get the next session")
	}
	r.until("the new router reads from replicas", func() bool { return c.port() != cluster.Primary().Port })
}

// holders counts how many sessions can be in a transaction on the primary at once;
// they end it before the count is given.
func (r *rig) holders(sessions []*client) int {
	r.t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	n := 0
	for _, c := range sessions {
		wg.Go(func() {
			_, err := c.run("BEGIN; SELECT 1")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				n++
			case sqlstate(err) != "57P03":
				r.t.Errorf("BEGIN: %v", err)
			}
		})
	}
	wg.Wait()
	for _, c := range sessions {
		if c.conn.TxStatus() == 'T' {
			c.must("ROLLBACK")
		}
	}
	return n
}

func TestPoolsAreDividedBetweenRouters(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := rigOf(t, stacktest.Options{Lab: cluster, Routers: 2}, func(c *config.Config) {
		c.Pool.MaxSize = 6
		c.Pool.AcquireTimeout = config.Duration(500 * time.Millisecond)
	})
	r.until("the sessions of the start are over", func() bool { return r.sessionsOn(1)+r.sessionsOn(2) == 0 })
	open := func(n int) (cs []*client) {
		for range n {
			cs = append(cs, r.connect())
		}
		return cs
	}
	both := open(16)
	r.until("two routers have all of the pool together", func() bool { return r.holders(both) == 6 })
	r.kill(rundir.Router, 1)
	var left []*client
	for _, c := range both {
		if _, err := c.run("SELECT 1"); err == nil {
			left = append(left, c)
		}
	}
	r.until("the router that is left has all of the pool", func() bool { return r.holders(left) == 6 })
	r.start(rundir.Router, 1)
	left = append(left, open(8)...)
	if n := r.sessionsOn(1); n < 3 {
		t.Fatalf("%d sessions on the new router: too few to use its part", n)
	}
	r.until("the pool is divided again", func() bool { return r.holders(left) == 6 })
	su := direct(t, cluster.Primary())
	r.until("no more server connections are there than max_size", func() bool { return lentTo(t, su) <= 6 })
}

// lentTo counts the connections to a server that clients' sessions may use. One that has
// been closed is counted until its server process has ended.
func lentTo(t testing.TB, su *client) int {
	t.Helper()
	n, err := strconv.Atoi(su.one("SELECT count(*) FROM pg_stat_activity WHERE datname = 'pgpilot' AND application_name NOT LIKE 'pgpilot%' AND usename = 'pgpilot'"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A router that has nobody to give its sessions to ends the idle ones, and lets
// transactions finish.
func TestRouterStoppedLetsTransactionsFinish(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, patientDrain)
	r.connect().must("CREATE TABLE t (a int)")
	var sessions []*client
	for range 8 {
		c := r.connect()
		c.must("BEGIN; INSERT INTO t VALUES (1)")
		sessions = append(sessions, c)
	}
	idle := []*client{r.connect(), r.connect(), r.connect(), r.connect()}
	r.kill(rundir.Listener, 1)

	stopped := make(chan error, 1)
	go func() { stopped <- r.Service(rundir.Router, 1).Terminate(timeout(t)) }()
	for i, c := range idle {
		r.until("idle sessions are ended", func() bool {
			_, err := c.run("SELECT 1")
			if err != nil && sqlstate(err) != "57P01" {
				t.Errorf("idle session %d is told %v", i, err)
			}
			return err != nil
		})
	}
	for i, c := range sessions {
		if _, err := c.run("INSERT INTO t VALUES (2); COMMIT"); err != nil {
			t.Errorf("transaction %d: %v", i, err)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	r.start(rundir.Router, 1)
	r.start(rundir.Listener, 1)
	c := r.connect()
	c.must("INSERT INTO t VALUES (3)")
	if got := c.one("SELECT count(*) FROM t"); got != "17" {
		t.Errorf("%s rows, want 17", got)
	}
}

// A router that is killed takes its own sessions along and nothing else: new connections go
// to the others at once, what was held is free, and every limit is what it was.
func TestOneOfThreeRoutersKilled(t *testing.T) {
	t.Parallel()
	const pool, most = 30, 40
	cluster := newCluster(t)
	r := rigOf(t, stacktest.Options{Lab: cluster, Routers: 3}, func(c *config.Config) {
		c.Pool.MaxSize, c.Limits.MaxClients = pool, most
		c.Pool.AcquireTimeout = config.Duration(patience)
	})
	su := direct(t, cluster.Primary())
	su.must("CREATE TABLE held (n int); ALTER TABLE held OWNER TO pgpilot")
	r.until("the sessions of the start are over", func() bool { return r.sessionsOn(1)+r.sessionsOn(2)+r.sessionsOn(3) == 0 })
	type session struct {
		*client
		check func() error
	}
	var sessions []session
	sees := func(c *client, sql, want string) func() error {
		return func() error {
			rows, err := c.run(sql)
			if err == nil && (len(rows) != 1 || rows[0][0] != want) {
				t.Errorf("%s gives %v instead of %s", sql, rows, want)
			}
			return err
		}
	}
	kinds := []func(c *client, n string) func() error{
		func(c *client, _ string) func() error { return sees(c, "SELECT 1", "1") },
		func(c *client, n string) func() error {
			c.must("BEGIN; INSERT INTO held VALUES (" + n + ")")
			return sees(c, "SELECT count(*) FROM held WHERE n = "+n, "1")
		},
		func(c *client, n string) func() error {
			c.must("CREATE TEMP TABLE mine AS SELECT " + n + " AS n")
			return sees(c, "SELECT n FROM mine", n)
		},
		func(c *client, n string) func() error {
			c.must("SELECT pg_advisory_lock(" + n + ")")
			return sees(c, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = "+n+" AND pid = pg_backend_pid()", "1")
		},
	}
	for i := range 30 { // the routers get them in turn
		c := r.connect()
		sessions = append(sessions, session{c, kinds[i/3%len(kinds)](c, strconv.Itoa(i))})
	}
	if a, b, c := r.sessionsOn(1), r.sessionsOn(2), r.sessionsOn(3); a != 10 || b != 10 || c != 10 {
		t.Fatalf("%d, %d and %d sessions", a, b, c)
	}

	r.kill(rundir.Router, 2)
	for range 10 { // at once: the listener need not have noticed
		c := r.connect()
		c.must("SELECT 1")
		c.close()
	}
	var left []*client
	for i, s := range sessions {
		err := s.check()
		switch {
		case err == nil:
			left = append(left, s.client)
		case !s.gone():
			t.Errorf("session %d is neither dead nor alive: %v", i, err)
		}
	}
	if len(left) != 20 {
		t.Fatalf("%d sessions live, want the 20 of the other routers", len(left))
	}
	r.until("the listener counts those that live", func() bool { return r.metric("pgpilot_listener_clients") == 20 })
	r.until("nothing of the dead ones is left", func() bool {
		return su.one("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid < 30") == strconv.Itoa(6-2)
	})
	for range most - 20 {
		left = append(left, r.connect())
	}
	if c, err := r.dial(""); sqlstate(err) != "53300" {
		t.Errorf("one more client than limits.max_clients: %v, %v", c, err)
	}
	// Those that get none of the pool give up soon.
	r.configure(func(c *config.Config) { c.Pool.AcquireTimeout = config.Duration(500 * time.Millisecond) })
	for _, n := range []string{"1", "3"} {
		r.until("router "+n+" has the shorter time", func() bool {
			_, body := r.get("/router/" + n + "/config")
			return strings.Contains(body, `"acquire_timeout": "500ms"`)
		})
	}
	r.until("two routers have all of the pool", func() bool { return r.holders(left) == pool })

	r.start(rundir.Router, 2)
	for _, c := range left[most-10:] {
		c.close()
	}
	left = left[:most-10]
	r.until("the listener counts those that are left", func() bool { return r.metric("pgpilot_listener_clients") == most-10 })
	for range 10 {
		left = append(left, r.connect())
	}
	if n := r.sessionsOn(2); n != 10 {
		t.Errorf("%d of the new sessions are at the new router", n)
	}
	r.until("the pool is divided between three", func() bool { return r.holders(left) == pool })
	r.until("no more server connections are there", func() bool { return lentTo(t, su) <= pool })
}
