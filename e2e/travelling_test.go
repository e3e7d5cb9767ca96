package e2e

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// A cancel request for a session that waits for its router stops what its client has sent
// before it, and nothing that comes behind.
func TestCancelOfAWaitingSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	for name, o := range map[string]struct {
		begin, statement, then string
	}{
		"by itself":                           {statement: "SELECT pg_sleep(60)", then: "SELECT 1"},
		"in a transaction":                    {begin: "BEGIN; CREATE TEMP TABLE mine ()", statement: "SELECT pg_sleep(60) FROM pg_class", then: "ROLLBACK"},
		"in a transaction, not known to read": {begin: "BEGIN; CREATE TEMP TABLE mine ()", statement: `SELECT pg_sleep(60) AS "never seen before"`, then: "ROLLBACK"},
		"nothing":                             {then: "SELECT 1"},
		"nothing, in a transaction":           {begin: "BEGIN; CREATE TEMP TABLE mine ()", then: "SELECT * FROM mine"},
	} {
		t.Run(name, func(t *testing.T) {
			c := r.connect()
			defer c.close()
			if o.begin != "" {
				c.must(o.begin)
			}
			if err := r.Service(rundir.Router, 1).Terminate(timeout(t)); err != nil {
				t.Fatal(err)
			}
			r.until("it waits", func() bool { return r.metric("pgpilot_listener_parked") == 1 })
			var answer chan error
			if o.statement != "" {
				running := c.conn.Exec(timeout(t), o.statement) // has sent it when it returns
				answer = make(chan error, 1)
				go func() { answer <- running.Close() }()
			}
			c.cancel()
			r.start(rundir.Router, 1)
			if answer != nil {
				if err := <-answer; sqlstate(err) != "57014" {
					t.Fatalf("what it had sent ends with %v", err)
				}
			}
			c.must(o.then)
		})
	}
}

// A cancel request that comes when nothing runs stops nothing that comes behind it, wherever
// its session is on the way between two routers at that moment.
func TestCancelRequestsWhileSessionsMove(t *testing.T) {
	t.Parallel()
	r := rigOf(t, stacktest.Options{Lab: newCluster(t), Routers: 2}, nil)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var requests atomic.Int64
	for i := range 8 {
		c := r.connect()
		if i%2 == 1 {
			c.must("CREATE TEMP TABLE mine (n int)") // it takes its connection along
		}
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c.cancel()
				requests.Add(1)
				if _, err := c.run("SELECT 1; SELECT 2"); err != nil {
					t.Errorf("client %d: the statement behind it: %v", i, err)
					return
				}
			}
		})
	}
	for round := range 4 {
		before := requests.Load()
		r.until("requests have come", func() bool { return requests.Load() > before+20 || t.Failed() })
		if err := r.Service(rundir.Router, 1+round%2).Restart(timeout(t)); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d requests", requests.Load())
}

// The sessions that wait for the only router survive their listener, too, if there is
// another one, and both listeners count what there is.
func TestWaitingSessionsGoToAnotherListener(t *testing.T) {
	t.Parallel()
	r := rigOf(t, stacktest.Options{Lab: newCluster(t), Listeners: 2}, nil)
	ks := r.keepers()
	all := float64(len(ks) + 1)
	counts := func(what string, want float64, instances ...string) {
		t.Helper()
		for _, id := range instances {
			r.until(fmt.Sprintf("listener %s: %s counts %v", id, what, want), func() bool { return r.metric(what, "instance", id) == want })
		}
	}
	checkAll(t, "before", ks)
	counts("pgpilot_listener_clients", all, "1", "2")
	for stops := 1; stops <= 2; stops++ {
		if err := r.Service(rundir.Router, 1).Terminate(timeout(t)); err != nil {
			t.Fatal(err)
		}
		r.until("all of them are parked", func() bool { return r.metric("pgpilot_listener_parked") == all })
		if err := r.Service(rundir.Listener, stops).Terminate(timeout(t)); err != nil {
			t.Fatal(err)
		}
		counts("pgpilot_listener_parked", all, strconv.Itoa(3-stops))
		r.start(rundir.Router, 1)
		checkAll(t, fmt.Sprintf("without listener %d", stops), ks)
		r.start(rundir.Listener, stops)
		counts("pgpilot_listener_clients", all, "1", "2")
	}
	ks[0].close()
	counts("pgpilot_listener_clients", all-1, "1", "2")
}

// A listener that is started while a router gives its sessions away takes those that are left.
func TestSessionsGoToAListenerThatComesLate(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := rigOf(t, stacktest.Options{Lab: cluster}, func(c *config.Config) { c.Drain.Timeout = config.Duration(patience) })
	busy, idle, su := r.connect(), r.connect(), direct(t, cluster.Primary())
	busy.must("CREATE TABLE held (n int); INSERT INTO held VALUES (0)")
	idle.must("SELECT 1")
	su.must("BEGIN; UPDATE held SET n = 1")
	answer := make(chan error, 1)
	go func() {
		_, err := busy.run("UPDATE held SET n = n + 10")
		answer <- err
	}()
	r.until("it waits for the lock", func() bool {
		return fmt.Sprint(su.must("SELECT count(*) FROM pg_locks WHERE NOT granted")) != "[[0]]"
	})
	ended := make(chan error, 1)
	go func() { ended <- r.Service(rundir.Router, 1).Terminate(timeout(t)) }()
	r.until("the router gives its sessions away", func() bool { return r.metric("pgpilot_listener_parked") == 1 })
	idle.close()
	r.kill(rundir.Listener, 1)
	r.start(rundir.Listener, 1)
	su.must("COMMIT")
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
	r.until("the session is parked", func() bool { return r.metric("pgpilot_listener_parked") == 1 })
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	r.start(rundir.Router, 1)
	if got := fmt.Sprint(busy.must("SELECT n FROM held")); got != "[[11]]" {
		t.Errorf("it reads %s", got)
	}
}

// The server connections that a session has worked with go along with it, so that it need not
// wait for new ones.
func TestServerConnectionsTravel(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := rigOf(t, stacktest.Options{Lab: cluster, Routers: 2}, func(c *config.Config) {
		c.Classify.Timeout = config.Duration(patience) // a statement that is not known has its connection reset
	})
	c := r.connect()
	c.must("CREATE TABLE worked (n int); INSERT INTO worked VALUES (0)")
	su := direct(t, cluster.Primary())
	servers := func() string {
		return fmt.Sprint(su.must("SELECT pid FROM pg_stat_activity WHERE query LIKE 'UPDATE worked%' AND pid <> pg_backend_pid()"))
	}
	var before string
	r.until("the statement is known, so that its connection is not reset", func() bool {
		c.must("UPDATE worked SET n = n + 1")
		before = servers()
		return before != "[]"
	})
	var rounds atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if _, err := c.run("UPDATE worked SET n = n + 1"); err != nil {
				t.Error(err)
				return
			}
			rounds.Add(1)
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for round := range 4 {
		done := rounds.Load()
		r.until("it has worked", func() bool { return rounds.Load() > done || t.Failed() })
		if err := r.Service(rundir.Router, 1+round%2).Restart(timeout(t)); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	if after := servers(); after != before {
		t.Errorf("it works with the server processes %s, and has with %s", after, before)
	}
}
