package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/services/listener/internal/routertest"
)

// patience bounds every wait for a condition.
const patience = 60 * time.Second

// listener is a running service with its surroundings.
type listener struct {
	t       *testing.T
	dir     *rundir.Dir
	env     *service.Env
	reloads chan *config.Config
	port    string
	metrics string
	log     *testLog
	done    chan error // what serve returned
	stop    func() error
}

// freePort gives the port of a free address.
func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(labtest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// checkLeaks fails the test if goroutines or descriptors outlive what it cleans up.
func checkLeaks(t *testing.T) {
	t.Helper()
	fds := func() int {
		es, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(es)
	}
	goroutines, open := runtime.NumGoroutine(), fds()
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		deadline := time.Now().Add(patience)
		for runtime.NumGoroutine() > goroutines || fds() > open {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				stacks = stacks[:runtime.Stack(stacks, true)]
				t.Errorf("goroutines %d, were %d; descriptors %d, were %d\n%s", runtime.NumGoroutine(), goroutines, fds(), open, stacks)
				return
			}
			runtime.Gosched()
		}
	})
}

func start(t *testing.T, change func(*config.Config)) *listener {
	t.Helper()
	checkLeaks(t)
	dir, err := rundir.Open(filepath.Join(t.TempDir(), "r"))
	if err != nil {
		t.Fatal(err)
	}
	return startIn(t, dir, change)
}

func startIn(t *testing.T, dir *rundir.Dir, change func(*config.Config)) *listener {
	t.Helper()
	l := launch(t, dir, change)
	l.started()
	return l
}

// launch starts a listener and does not wait for it.
func launch(t *testing.T, dir *rundir.Dir, change func(*config.Config)) *listener {
	t.Helper()
	l := &listener{t: t, dir: dir, port: freePort(t), metrics: freePort(t), reloads: make(chan *config.Config, 1), log: &testLog{t: t}}
	cfg := config.Default()
	cfg.Listen = "localhost:" + l.port
	cfg.Users = []config.User{{Name: "alice", Password: "pencil"}}
	cfg.Observability.MetricsAddr = "127.0.0.1:" + l.metrics
	if change != nil {
		change(cfg)
	}
	claim, err := dir.Claim(rundir.Listener, "")
	if err != nil {
		t.Fatal(err)
	}
	l.env = &service.Env{Config: cfg, Reloads: l.reloads, Log: slog.New(slog.NewTextHandler(l.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Dir: dir, Claim: claim, Metrics: prometheus.NewRegistry(), Health: obs.NewHealth(), Version: "test"}
	http, err := claim.ListenHTTP()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	around, stopAround := context.WithCancel(context.Background())
	done, httpDone := make(chan error, 1), make(chan error, 1)
	go func() { done <- serve(ctx, l.env) }()
	go func() {
		httpDone <- obs.Serve(around, http, obs.Handler(l.env.Metrics, l.env.Health, cfg.Observability.Pprof), l.env.Log)
	}()
	stopped := false
	l.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		err := <-done
		stopAround()
		return errors.Join(err, <-httpDone, claim.Close())
	}
	t.Cleanup(func() {
		if err := l.stop(); err != nil {
			t.Error(err)
		}
	})
	l.done = done
	return l
}

// started waits until it runs.
func (l *listener) started() {
	l.t.Helper()
	select {
	case <-l.env.Health.Started():
	case err := <-l.done:
		l.done <- err
		l.t.Fatalf("listener did not start: %v", err)
	}
}

// said reports whether its log has the text.
func (l *listener) said(text string) bool {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	return strings.Contains(l.log.text.String(), text)
}

// testLog writes the service's log to the test's, and keeps it.
type testLog struct {
	t    *testing.T
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *testLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	l.t.Log(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

func newRouter(id string) *routertest.Router { return &routertest.Router{ID: id} }

// router starts a fake router and waits until the listener knows it.
func (l *listener) router(r *routertest.Router) *routertest.Router {
	l.t.Helper()
	before := l.gauge("pgpilot_listener_routers")
	r.Start(l.t, l.dir)
	l.wait("the router is met", func() bool { return l.gauge("pgpilot_listener_routers") > before })
	return r
}

// gauge reads a metric without labels.
func (l *listener) gauge(name string) float64 {
	l.t.Helper()
	fs, err := l.env.Metrics.Gather()
	if err != nil {
		l.t.Fatal(err)
	}
	for _, f := range fs {
		if f.GetName() == name {
			return f.Metric[0].GetGauge().GetValue()
		}
	}
	l.t.Fatalf("there is no metric %s", name)
	return 0
}

func (l *listener) wait(what string, ok func() bool) {
	l.t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			l.t.Fatalf("not seen: %s", what)
		}
		runtime.Gosched()
	}
}

func (l *listener) config(user, password string) *pgconn.Config {
	l.t.Helper()
	c, err := pgconn.ParseConfig(fmt.Sprintf("host=127.0.0.1 port=%s user=%s password=%s dbname=app sslmode=disable application_name=test", l.port, user, password))
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

func (l *listener) connect() *pgconn.PgConn {
	l.t.Helper()
	c, err := l.dial("alice", "pencil")
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

func (l *listener) dial(user, password string) (*pgconn.PgConn, error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgconn.ConnectConfig(ctx, l.config(user, password))
	if err == nil {
		l.t.Cleanup(func() { l.close(c) })
	}
	return c, err
}

func (l *listener) close(c *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = c.Close(ctx) // the other end may have died on purpose
}

// served gives the id of the router that answers.
func (l *listener) served(c *pgconn.PgConn) string {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rs, err := c.Exec(ctx, "SELECT router").ReadAll()
	if err != nil {
		l.t.Fatal(err)
	}
	return string(rs[0].Rows[0][0])
}

func refused(t *testing.T, err error, code string) *pgconn.PgError {
	t.Helper()
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Code != code || pe.Severity != "FATAL" {
		t.Fatalf("got %v, want FATAL %s", err, code)
	}
	return pe
}

func TestLoginReachesARouter(t *testing.T) {
	l := start(t, nil)
	r := l.router(newRouter("1"))
	c := l.connect()
	if got := l.served(c); got != "1" {
		t.Fatalf("served by router %q", got)
	}
	rec := <-r.Offered
	app, _ := rec.Parameter("application_name")
	if rec.User != "alice" || rec.Database != "app" || app != "test" || rec.Protocol != 3<<16 && rec.Protocol != 3<<16|2 ||
		!strings.HasPrefix(rec.Client, "127.0.0.1:") || len(rec.Unread) != 0 || rec.Cancel.PID != c.PID() {
		t.Fatalf("record %+v", rec)
	}
	l.close(c)
	l.wait("the session's end is noticed", func() bool { return l.gauge("pgpilot_listener_clients") == 0 })
}

func TestWrongPasswordAndUnknownUserGetOneAnswer(t *testing.T) {
	l := start(t, nil)
	r := l.router(newRouter("1"))
	_, err := l.dial("alice", "wrong")
	if got := refused(t, err, "28P01").Message; got != `password authentication failed for user "alice"` {
		t.Errorf("message %q", got)
	}
	_, err = l.dial("mallory", "pencil")
	if got := refused(t, err, "28P01").Message; got != `password authentication failed for user "mallory"` {
		t.Errorf("message %q", got)
	}
	if n := l.gauge("pgpilot_listener_clients"); n != 0 || len(r.Offered) != 0 {
		t.Errorf("%v places are taken, %d sessions were offered", n, len(r.Offered))
	}
}

func TestLocalClient(t *testing.T) {
	folder := t.TempDir()
	l := start(t, func(c *config.Config) { c.ListenUnix = folder })
	r := l.router(newRouter("1"))
	cfg := l.config("alice", "pencil")
	cfg.Host = folder
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close(c)
	if rec := <-r.Offered; rec.Client != "unix" {
		t.Errorf("client %q", rec.Client)
	}
	if got := l.served(c); got != "1" {
		t.Errorf("served by %q", got)
	}
}

func TestMaxClientsCountsSessionsWhereverTheyAre(t *testing.T) {
	l := start(t, func(c *config.Config) { c.Limits.MaxClients = 3 })
	r := l.router(&routertest.Router{ID: "1", Sessions: []string{"of an earlier listener"}})
	a, b := l.connect(), l.connect()
	_, err := l.dial("alice", "pencil")
	if got := refused(t, err, "53300").Message; got != "sorry, too many clients already" {
		t.Errorf("message %q", got)
	}
	l.close(a)
	l.wait("a place is free", func() bool { return l.gauge("pgpilot_listener_clients") == 2 })
	c := l.connect()
	if got := l.served(c) + l.served(b); got != "11" {
		t.Errorf("served by %q", got)
	}
	r.Kill()
	l.wait("a dead router's sessions are forgotten", func() bool { return l.gauge("pgpilot_listener_clients") == 0 })
}

func TestLeastLoadedRouterGetsTheNextSession(t *testing.T) {
	l := start(t, nil)
	l.router(&routertest.Router{ID: "1", Sessions: []string{"x", "y", "z"}})
	l.router(newRouter("2"))
	var conns []*pgconn.PgConn
	got := ""
	for range 7 {
		c := l.connect()
		conns = append(conns, c)
		got += l.served(c)
	}
	if got != "2221212" {
		t.Errorf("routers in turn: %s", got)
	}
	// Two of the second router's go: it is the less loaded one now.
	l.close(conns[0])
	l.close(conns[1])
	l.wait("ends are noticed", func() bool { return l.gauge("pgpilot_listener_clients") == 8 })
	if got := l.served(l.connect()); got != "2" {
		t.Errorf("served by %q", got)
	}
}

func TestSessionGoesOnToAnotherRouter(t *testing.T) {
	for name, b := range map[string]routertest.Behaviour{"dies": routertest.Die, "refuses": routertest.Refuse, "hangs": routertest.Hang} {
		t.Run(name, func(t *testing.T) {
			l := start(t, nil)
			bad := l.router(&routertest.Router{ID: "1", Behaviour: b})
			l.router(&routertest.Router{ID: "2", Sessions: []string{"busier"}})
			if got := l.served(l.connect()); got != "2" {
				t.Errorf("served by %q", got)
			}
			if len(bad.Offered) != 1 {
				t.Errorf("the first router was offered %d sessions", len(bad.Offered))
			}
		})
	}
}

func TestEndThatOvertakesItsAcknowledgementIsCounted(t *testing.T) {
	l := start(t, nil)
	r := l.router(&routertest.Router{ID: "1", Behaviour: routertest.Hasty})
	if _, err := l.dial("alice", "pencil"); err == nil {
		t.Fatal("the session was served")
	}
	<-r.Offered
	l.wait("everybody is out", func() bool {
		return l.gauge("pgpilot_listener_clients")+l.gauge("pgpilot_listener_logins") == 0
	})
	r.Kill()
	l.wait("the router is gone", func() bool { return l.gauge("pgpilot_listener_routers") == 0 })
	if n := l.gauge("pgpilot_listener_clients"); n != 0 {
		t.Errorf("%v places are taken", n)
	}
}

func TestNoRouterIsSaidAfterLogin(t *testing.T) {
	l := start(t, nil)
	_, err := l.dial("alice", "pencil")
	refused(t, err, "57P03")
	if n := l.gauge("pgpilot_listener_clients"); n != 0 {
		t.Errorf("%v places are taken", n)
	}
}

func TestClientWaitsForARouterThatComes(t *testing.T) {
	l := start(t, nil)
	got := make(chan error, 1)
	go func() {
		c, err := l.dial("alice", "pencil")
		if err == nil {
			l.close(c)
		}
		got <- err
	}()
	l.wait("the client is parked", func() bool { return l.gauge("pgpilot_listener_parked") == 1 })
	l.router(newRouter("1"))
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

func TestCancelGoesToEveryRouter(t *testing.T) {
	l := start(t, nil)
	a, b := l.router(newRouter("1")), l.router(newRouter("2"))
	c := l.connect()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.CancelRequest(ctx); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*routertest.Router{a, b} {
		select {
		case k := <-r.Cancels:
			if k.PID != c.PID() || string(k.Secret) != string(c.SecretKey()) {
				t.Errorf("router %s got key %+v", r.ID, k)
			}
		case <-ctx.Done():
			t.Fatalf("router %s got no cancel request", r.ID)
		}
	}
}

func TestSessionsOutliveTheListener(t *testing.T) {
	l := start(t, nil)
	l.router(newRouter("1"))
	c := l.connect()
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	if got := l.served(c); got != "1" {
		t.Errorf("served by %q", got)
	}
	// The port is free at once, although its old connections live on.
	port := l.port
	next := startIn(t, l.dir, func(c *config.Config) { c.Listen = "127.0.0.1:" + port })
	next.port = port
	next.wait("the router is met", func() bool { return next.gauge("pgpilot_listener_routers") == 1 })
	if got := next.served(next.connect()); got != "1" {
		t.Errorf("served by %q", got)
	}
}

func TestTakenPortIsOneSentence(t *testing.T) {
	l := start(t, nil)
	env := *l.env
	env.Metrics = prometheus.NewRegistry()
	cfg := *env.Config
	cfg.Observability.MetricsAddr = ""
	env.Config = &cfg
	err := serve(context.Background(), &env)
	if err == nil || !strings.Contains(err.Error(), "the port is taken; stop the program that has it or change listen") {
		t.Fatalf("got %v", err)
	}
}

// A listener that has only just started, or is about to end, has sockets that it does not share.
// Others wait for it, and then for the one of them that is the first to have the addresses.
func TestListenersWaitForTheirSockets(t *testing.T) {
	checkLeaks(t)
	dir, err := rundir.Open(filepath.Join(t.TempDir(), "r"))
	if err != nil {
		t.Fatal(err)
	}
	ends, err := dir.Claim(rundir.Listener, "0")
	if err != nil {
		t.Fatal(err)
	}
	has, err := net.Listen("tcp", labtest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	metrics, folder := labtest.FreeAddress(t), t.TempDir()
	all := make([]*listener, 4)
	for i := range all {
		all[i] = launch(t, dir, func(c *config.Config) {
			c.Listen, c.ListenUnix, c.Observability.MetricsAddr = has.Addr().String(), folder, metrics
		})
	}
	for _, l := range all {
		l.wait("it waits", func() bool { return l.said("waiting for another listener") })
	}
	if err := errors.Join(has.Close(), ends.Close()); err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		l.started()
	}
}

// Clients are served while something else has the port for metrics, which is taken as soon as it is
// free.
func TestClientsDoNotWaitForThePageOfMetrics(t *testing.T) {
	port := freePort(t)
	has, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer has.Close()
	l := start(t, func(c *config.Config) { c.Observability.MetricsAddr = "127.0.0.1:" + port })
	l.router(newRouter("1"))
	if got := l.served(l.connect()); got != "1" {
		t.Errorf("served by %q", got)
	}
	if !l.said("change observability.metrics_addr") {
		t.Error("it does not say what to do")
	}
	if err := has.Close(); err != nil {
		t.Fatal(err)
	}
	l.wait("metrics are relayed", func() bool {
		resp, err := http.Get("http://127.0.0.1:" + port + "/metrics")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	http.DefaultClient.CloseIdleConnections()
}

func TestReloadChangesUsersAndLimits(t *testing.T) {
	l := start(t, nil)
	l.router(newRouter("1"))
	cfg := *l.env.Config
	cfg.Users = []config.User{{Name: "bob", Password: "brush"}}
	cfg.Limits.MaxClients = 7
	l.reloads <- &cfg
	l.wait("the limit is the new one", func() bool { return l.gauge("pgpilot_listener_max_clients") == 7 })
	if _, err := l.dial("bob", "brush"); err != nil {
		t.Error(err)
	}
	_, err := l.dial("alice", "pencil")
	refused(t, err, "28P01")
}

func TestReadinessNamesWhatIsMissing(t *testing.T) {
	l := start(t, nil)
	report := func() (status int, r obs.Report) {
		status, body := fetch(t, l.metrics, "/readyz")
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			t.Fatalf("%v in %q", err, body)
		}
		return status, r
	}
	status, r := report()
	if status != 503 || r.Parts["router"] != "none is running" || r.Parts["listener.1"] != "routers: no router is running" {
		t.Errorf("status %d, %+v", status, r)
	}
	l.router(newRouter("1"))
	l.wait("the listener is ready", func() bool { _, r = report(); return r.Parts["listener.1"] == "ok" })
	if status, body := fetch(t, l.metrics, "/metrics"); status != 200 || !strings.Contains(body, `pgpilot_listener_routers{instance="1",service="listener"} 1`) {
		t.Errorf("status %d, page:\n%s", status, body)
	}
}
