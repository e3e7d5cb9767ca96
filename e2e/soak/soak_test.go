package soak

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

var (
	long    = flag.Duration("for", 30*time.Second, "how long, both pool modes together")
	seed    = flag.Uint64("seed", 1, "what is done by chance")
	clients = flag.Int("clients", 12, "clients at a time")
	heaps   = flag.String("profiles", "", "folder for heap profiles of the router, of the middle and the end")
)

const (
	// poolSize is so small that clients wait for one another.
	poolSize = 3
	// patience bounds every wait.
	patience = 2 * time.Minute
)

// run is one soak, in one pool mode.
type run struct {
	*testing.T
	mode    string
	cluster *lab.Cluster
	pilot   *stacktest.Pgpilot
	quit    chan struct{}

	values  atomic.Int64 // each is written once
	checked atomic.Int64 // answers that were right
	onRead  atomic.Int64 // of them, given by replicas

	mu       sync.Mutex
	acts     map[string]int
	problems map[string]int // errors that were to be expected, by SQLSTATE
}

// schema has a row for each client, and a table in two schemas for search_path.
const schema = `
CREATE TABLE kv (k int PRIMARY KEY, v bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);
INSERT INTO kv SELECT g FROM generate_series(0, 999) g;
CREATE TABLE sheet (k int, n int);
CREATE SCHEMA s1; CREATE TABLE s1.here AS SELECT 's1'::text AS name;
CREATE SCHEMA s2; CREATE TABLE s2.here AS SELECT 's2'::text AS name;
CREATE TABLE public.here AS SELECT 'public'::text AS name;`

func TestSoak(t *testing.T) {
	cluster := labtest.Start(t, 2)
	owner := open(t, cluster.Primary().DSN())
	if _, err := owner.Exec(t.Context(), schema).ReadAll(); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{config.Transaction, config.Session} {
		t.Run(mode, func(t *testing.T) {
			r := &run{T: t, mode: mode, cluster: cluster, quit: make(chan struct{}), acts: map[string]int{}, problems: map[string]int{}}
			r.pilot = stacktest.Start(t, stacktest.Options{Lab: cluster, Configure: func(c *config.Config) {
				c.Pool.Mode, c.Pool.MaxSize = mode, poolSize
				c.Pool.AcquireTimeout = config.Duration(patience)
				c.Classify.Timeout = config.Duration(20 * time.Second)           // a verdict that is late binds its session to the primary
				c.Routing.ReadFunctions = []string{"pg_catalog.current_setting"} // asked only for settings of the session
				c.Health.Interval = config.Duration(200 * time.Millisecond)
				c.Observability.Pprof = *heaps != ""
			}})
			r.soak(*long / 2)
		})
	}
}

// soak works for a time, then looks at what is left.
func (r *run) soak(d time.Duration) {
	before := r.settled(nil)
	var all sync.WaitGroup
	stop := sync.OnceFunc(func() { close(r.quit); all.Wait() })
	r.Cleanup(stop) // a failed test must not leave them at it
	for i := range *clients {
		w := newWorker(r, i)
		all.Go(w.work)
	}
	all.Go(r.terminate)
	memory := r.watchMemory(d)
	stop()
	after := r.settled(before)
	r.Logf("seed %d, %v, %d clients: %d answers checked, %d of them of replicas; acts %v; errors to be expected %v",
		*seed, d, *clients, r.checked.Load(), r.onRead.Load(), r.acts, r.problems)
	r.Logf("before %v, after %v", before, after)
	memory.judge(r.T, d)
	r.accountForLosses()
	for what, n := range after {
		if n > before[what]+slack {
			r.Errorf("%s: %d before, %d after", what, before[what], n)
		}
	}
	r.clean()
	if r.checked.Load() < 100 || r.onRead.Load() < 10 {
		r.Errorf("%d answers, %d of replicas: that proves nothing", r.checked.Load(), r.onRead.Load())
	}
}

// accountForLosses compares the connections that were lost with those that were ended. A
// session may come upon one twice: with what it does, and with what it tries then.
func (r *run) accountForLosses() {
	r.Helper()
	lost := 0
	for code, n := range r.problems {
		if code != "57014" {
			lost += n
		}
	}
	if ended := r.acts["backend terminated"] + r.acts["vanished"]; lost > 2*ended {
		r.Errorf("%d errors of lost connections, with %d ended: %v", lost, ended, r.problems)
	}
}

// terminate ends server processes of sessions, one after the other.
func (r *run) terminate() {
	chance := rand.New(rand.NewPCG(*seed, 1))
	members := r.cluster.Members()
	for r.pause(time.Duration(200+chance.IntN(800)) * time.Millisecond) {
		m := members[chance.IntN(len(members))]
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		conn, err := dial(ctx, m.SuperDSN())
		if err == nil {
			_, err = conn.Exec(ctx, fmt.Sprintf(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE backend_type = 'client backend' AND usename = '%s' AND datname = '%s' ORDER BY random() LIMIT 1`, lab.User, lab.Database)).ReadAll()
			_ = conn.Close(ctx) // it has done its work
		}
		cancel()
		if err != nil {
			r.Errorf("terminate a process of %s: %v", m.Name, err)
			return
		}
		r.note(r.acts, "backend terminated")
	}
}

// pause waits, and reports whether to go on.
func (r *run) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.quit:
		return false
	case <-timer.C:
		return true
	}
}

func (r *run) note(in map[string]int, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in[what]++
}
