package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/consistency"
	"github.com/pgpilot/pgpilot/libs/faultproxy"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

const (
	// routers share the sessions.
	routers = 2
	// sharedKeys are written by all sessions, each of which has a key of its own too.
	sharedKeys = 16
	// patience bounds every wait for the cluster to be well again.
	patience = 2 * time.Minute
	// bound is fencing.bounded_ms of the mode bounded.
	bound = 2 * time.Second
)

// plan says what a run does.
type plan struct {
	mode     string
	sessions int
	seed     uint64
	// faults are injected one after the other, in an order of chance, until
	// duration is over; each once at least if every is set.
	faults   []fault
	every    bool
	duration time.Duration
	// binDir has the programs; empty: those of this checkout.
	binDir string
	// configure may change the configuration.
	configure func(*config.Config)
}

// run is a plan at work.
type run struct {
	t       *testing.T
	plan    plan
	r       *rand.Rand // of the faults; each session has its own
	cluster *lab.Cluster
	pilot   *stacktest.Pgpilot
	start   time.Time
	servers []*server

	quit     chan struct{}
	wg       sync.WaitGroup
	values   atomic.Int64
	opened   atomic.Int32
	replies  [2]atomic.Int64 // reads answered by the primary, and by replicas
	primary  atomic.Int32    // the server that takes writes
	warnings atomic.Int64
	// snapshots counts the transactions all of whose reads were of one snapshot.
	snapshots atomic.Int64

	mu       sync.Mutex
	logs     []sessionLog
	losses   []consistency.Loss
	problems map[string]int // errors that sessions were told, by SQLSTATE
	injected map[string]int
}

// sessionLog is what a session of a mode has seen.
type sessionLog struct {
	mode string
	*consistency.Log
}

// mixed stands for sessions of all modes at once.
const mixed = "mixed"

// modes gives those of the plan's sessions.
func (r *run) modes() []string {
	if r.plan.mode != mixed {
		return []string{r.plan.mode}
	}
	var all []string
	for _, m := range consistency.Modes(bound) {
		all = append(all, m.Name)
	}
	return all
}

// history gives what sessions of a mode are judged by: all that they have seen, and
// what everybody has written.
func (r *run) history(mode string) *consistency.History {
	var logs []*consistency.Log
	for _, l := range r.logs {
		if l.mode == mode {
			logs = append(logs, l.Log)
		} else {
			logs = append(logs, l.Writes())
		}
	}
	return consistency.NewHistory(logs, r.losses)
}

// judge judges the sessions of each mode by what that promises.
func (r *run) judge() (operations int) {
	r.t.Helper()
	r.report()
	for _, mode := range r.modes() {
		m, err := consistency.ModeOf(mode, bound)
		r.ok(err)
		found := consistency.Check(r.history(mode), m.Promise)
		r.reportMode(mode, found)
		operations += found.Reads
		if mode == r.modes()[0] {
			operations += found.Writes // everybody's
		}
		if len(found.Violations) > 0 {
			r.t.Errorf("%d violations of %s with seed %d", len(found.Violations), mode, r.plan.seed)
		}
		if len(found.Undecided) > 0 {
			r.t.Errorf("of keys %v it could not be decided whether %s holds", found.Undecided, mode)
		}
	}
	return operations
}

// server is one of the cluster's. state counts its starts and stops: odd while it is
// being ended or started.
type server struct {
	m *lab.Member
	// wire is the network between pgpilot and the server.
	wire  *faultproxy.Proxy
	state atomic.Int32
}

// known gives the number of the server's run, 0 in between.
func (s *server) known() int32 {
	if n := s.state.Load(); n%2 == 0 {
		return n/2 + 1
	}
	return 0
}

// schema is the registers, and a procedure that commits and then fails.
const schema = `
CREATE TABLE kv (k int PRIMARY KEY, v bigint NOT NULL DEFAULT 0, n bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);
INSERT INTO kv SELECT g FROM generate_series(1, 1000) g;
CREATE PROCEDURE commit_then_fail(key int, value bigint) LANGUAGE plpgsql AS $$BEGIN
  UPDATE kv SET v = value, n = n + 1 WHERE k = key;
  COMMIT;
  RAISE EXCEPTION 'as agreed' USING ERRCODE = 'KV001';
END$$;
ALTER TABLE kv OWNER TO pgpilot`

// perform runs the plan.
func perform(t *testing.T, p plan) *run {
	t.Helper()
	r := &run{
		t: t, plan: p, r: rand.New(rand.NewPCG(p.seed, 1)), quit: make(chan struct{}), start: time.Now(),
		problems: map[string]int{}, injected: map[string]int{},
	}
	r.cluster = labtest.Start(t, 2)
	for _, m := range r.cluster.Members() {
		wire, err := faultproxy.New(fmt.Sprintf("%s:%d", m.Host, m.Port))
		r.ok(err)
		t.Cleanup(func() { _ = wire.Close() })
		r.servers = append(r.servers, &server{m: m, wire: wire})
	}
	r.must(r.cluster.Primary(), schema,
		// A replica that is rebuilt from an older backup needs what was written since.
		"ALTER SYSTEM SET wal_keep_size = '8GB'", "SELECT pg_reload_conf()")
	r.ok(r.cluster.WaitCaughtUp(r.ctx()))
	r.pilot = stacktest.Start(t, stacktest.Options{Lab: r.cluster, Routers: routers, BinDir: p.binDir, Configure: func(c *config.Config) {
		// Each session says which mode it wants.
		c.Fencing.BoundedMS = int(bound.Milliseconds())
		c.Primary.Address = r.servers[0].wire.Addr()
		for i := range c.Replicas {
			c.Replicas[i].Address = r.servers[i+1].wire.Addr()
		}
		c.Pool.MaxSize = 4 * p.sessions
		c.Health.Interval = config.Duration(200 * time.Millisecond)
		c.Routing.SlowStart = 0 // a replica that has come back is to be tried at once
		c.Health.MaxBackoff = config.Duration(time.Second)
		if p.configure != nil {
			p.configure(c)
		}
	}})
	for i := range p.sessions {
		w := newWorker(r, i)
		r.wg.Go(w.work)
	}
	stop := sync.OnceFunc(func() { close(r.quit); r.wg.Wait() })
	t.Cleanup(stop) // a failed test must not leave them at it
	r.inject()
	stop()
	return r
}

// inject injects faults until the time is over.
func (r *run) inject() {
	end := time.Now().Add(r.plan.duration)
	var todo []fault
	if len(r.plan.faults) == 0 {
		r.pause(r.plan.duration)
		return
	}
	for done := 0; time.Now().Before(end) || r.plan.every && done < len(r.plan.faults); done++ {
		if len(todo) == 0 {
			todo = slices.Clone(r.plan.faults)
			r.r.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		}
		f := todo[0]
		todo = todo[1:]
		r.pause(time.Duration(200+r.r.IntN(800)) * time.Millisecond)
		r.t.Logf("%8s %s", time.Since(r.start).Round(time.Millisecond), f.name)
		f.inject(r)
		r.injected[f.name]++
		r.serving()
	}
}

// pause lets the sessions work undisturbed.
func (r *run) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// serving waits until reads and writes succeed again.
func (r *run) serving() {
	ctx := r.ctx()
	for {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			c, err := pgx.Connect(ctx, r.pilot.DSN)
			if err != nil {
				return err
			}
			defer c.Close(context.WithoutCancel(ctx))
			_, err = c.Exec(ctx, "UPDATE kv SET n = n + 1 WHERE k = 1000")
			return err
		}()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			r.t.Fatalf("pgpilot does not serve again: %v", err)
		}
		r.pause(20 * time.Millisecond)
	}
}

// now is the run's one clock.
func (r *run) now() int64 { return int64(time.Since(r.start)) }

func (r *run) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *run) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// must executes statements on a server itself, as the superuser.
func (r *run) must(m *lab.Member, statements ...string) {
	r.t.Helper()
	ctx := r.ctx()
	c, err := pgx.Connect(ctx, m.SuperDSN())
	r.ok(err)
	defer c.Close(context.WithoutCancel(ctx))
	for _, s := range statements {
		if _, err := c.Exec(ctx, s, pgx.QueryExecModeSimpleProtocol); err != nil {
			r.t.Fatalf("%s on %s: %v", s, m.Name, err)
		}
	}
}

// serverAt gives the place of the server that listens on a port.
func (r *run) serverAt(port int) int32 {
	return int32(slices.IndexFunc(r.servers, func(s *server) bool { return s.m.Port == port }))
}

// report writes what was done.
func (r *run) report() {
	r.t.Helper()
	faults := 0
	var names []string
	for name, n := range r.injected {
		faults += n
		names = append(names, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(names)
	var told []string
	for code, n := range r.problems {
		told = append(told, fmt.Sprintf("%s %d", code, n))
	}
	slices.Sort(told)
	r.t.Logf("mode %s, seed %d, %s: %d sessions opened by %d clients over %d routers",
		r.plan.mode, r.plan.seed, time.Since(r.start).Round(time.Second), r.opened.Load(), r.plan.sessions, routers)
	r.t.Logf("reads on replicas %d, on the primary %d; %d transactions of one snapshot; warnings of lost writes %d", r.replies[1].Load(), r.replies[0].Load(), r.snapshots.Load(), r.warnings.Load())
	r.t.Logf("faults injected %d: %s", faults, strings.Join(names, ", "))
	r.t.Logf("errors told: %s", strings.Join(told, ", "))
}

// reportMode writes what was found about the sessions of a mode.
func (r *run) reportMode(mode string, found *consistency.Report) {
	r.t.Helper()
	r.t.Logf("%s: operations %d (%d reads of its sessions, %d writes of all; %d writes failed as planned, %d answers were lost), violations %d",
		mode, found.Operations(), found.Reads, found.Writes, found.Failed, found.Unknown, len(found.Violations))
	for i, v := range found.Violations {
		if i == 20 {
			r.t.Logf("and %d more", len(found.Violations)-i)
			break
		}
		r.t.Log(v)
	}
}
