package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/parse"
	"github.com/pgpilot/pgpilot/services/classifier/internal/parse/poison"
)

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

// asService makes the test binary be the classifier, so that there is a process
// to kill. It is also the classifier's parser process, one that poison harms.
const asService = "PGPILOT_TEST_AS_CLASSIFIER"

func TestMain(m *testing.M) {
	if parse.IsWorker(os.Args) {
		os.Exit(parse.Serve(os.Args, func(text string, normalize bool) parse.Raw {
			poison.Take(text)
			return parse.C(text, normalize)
		}))
	}
	if os.Getenv(asService) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// stand is a run directory with a configuration.
type stand struct {
	t      testing.TB
	dir    *rundir.Dir
	config string
}

func newStand(t testing.TB) *stand {
	t.Helper()
	p, err := os.MkdirTemp("", "cl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(p) })
	dir, err := rundir.Open(filepath.Join(p, "run"))
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{t: t, dir: dir, config: filepath.Join(p, "pgpilot.json")}
	b, err := json.Marshal(map[string]any{
		"run_dir":  dir.Path(),
		"primary":  "127.0.0.1:5432",
		"users":    []map[string]string{{"name": "u", "password": "p"}},
		"classify": map[string]any{"max_text": 10_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.config, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// configure adds parts to the configuration, or replaces them.
func (s *stand) configure(parts map[string]any) {
	s.t.Helper()
	text, err := os.ReadFile(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		s.t.Fatal(err)
	}
	maps.Copy(all, parts)
	if text, err = json.Marshal(all); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.config, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// process is a running classifier.
type process struct {
	t    testing.TB
	id   string
	cmd  *exec.Cmd
	log  bytes.Buffer
	once sync.Once
}

func (s *stand) start(id string, flags ...string) *process {
	s.t.Helper()
	p := &process{t: s.t, id: id}
	p.cmd = exec.Command(os.Args[0], append([]string{"-config", s.config, "-id", id}, flags...)...)
	p.cmd.Env = append(os.Environ(), asService+"=1")
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		p.stop(syscall.SIGKILL)
		if s.t.Failed() {
			s.t.Logf("classifier %s wrote:\n%.20000s", id, p.log.String())
		}
	})
	return p
}

// stop ends the process, waits for it, and gives its exit code.
func (p *process) stop(sig syscall.Signal) int {
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(sig)
		_ = p.cmd.Wait()
	})
	return p.cmd.ProcessState.ExitCode()
}

func (s *stand) client() *verdict.Client {
	c := verdict.NewClient(verdict.Options{Dir: s.dir, Timeout: patience, MaxText: 1 << 20,
		Log: slog.New(slog.NewTextHandler(s.t.Output(), nil))})
	s.t.Cleanup(c.Close)
	return c
}

func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func connected(t testing.TB, c *verdict.Client, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d classifiers are connected", n), func() bool { return c.Connected() == n })
}

// keyOf stands for the router's template key.
func keyOf(t testing.TB, text string) sqltoken.Key {
	t.Helper()
	r, err := sqltoken.NewScanner(sqltoken.Secret{1}).Scan([]byte(text), &sqltoken.Options{ServerMajor: 17})
	if err != nil {
		t.Fatal(err)
	}
	return r.Key
}

func ask(t testing.TB, c *verdict.Client, text string) (verdict.Verdict, error) {
	t.Helper()
	type answer struct {
		v   verdict.Verdict
		err error
	}
	got := make(chan answer, 1)
	c.Ask(verdict.Request{Key: keyOf(t, text), Database: "app", Text: text}, func(v verdict.Verdict, err error) { got <- answer{v, err} })
	a := <-got
	return a.v, a.err
}

func wantKind(t testing.TB, c *verdict.Client, text string, want verdict.Kind) {
	t.Helper()
	if v, err := ask(t, c, text); err != nil || v.Kind != want {
		t.Fatalf("%.60s: got %v, %v; want %v", text, v.Kind, err, want)
	}
}

// metric reads one sample of a classifier's /metrics.
func (s *stand) metric(id, name string) float64 {
	s.t.Helper()
	h := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return rundir.Dial(ctx, s.dir.HTTPSocket(rundir.Classifier, id))
		}}}
	r, err := h.Get("http://classifier/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			var v float64
			if _, err := fmt.Sscan(value, &v); err != nil {
				s.t.Fatal(err)
			}
			return v
		}
	}
	s.t.Fatalf("no metric %s", name)
	return 0
}

func TestVerdictsOverTheSocket(t *testing.T) {
	s := newStand(t)
	p := s.start("1")
	c := s.client()
	connected(t, c, 1)
	wantKind(t, c, "SELECT 1", verdict.Read)
	wantKind(t, c, "SELECT 2", verdict.Read) // the same template
	wantKind(t, c, "DELETE FROM t", verdict.Write)
	if v, err := ask(t, c, "CREATE TEMP TABLE x (a int)"); err != nil || !v.Effects.Has(verdict.Session) {
		t.Fatalf("got %+v, %v", v, err)
	}
	long := "SELECT '" + strings.Repeat("x", 20_000) + "'"
	if _, err := ask(t, c, long); !errors.Is(err, verdict.ErrNoVerdict) { // so that nobody remembers one
		t.Fatalf("a text that is too long: %v", err)
	}
	wantKind(t, c, "SELECT 'x'", verdict.Read)
	wantKind(t, c, "SELECT 1 FROM", verdict.Write)
	wantKind(t, c, "SELECT 2 FROM", verdict.Write)
	// There is no database: only what is judged without one is remembered.
	for name, want := range map[string]float64{"requests_total": 8, "cache_hits_total": 1, "cache_misses_total": 6,
		"too_long_total": 1, "cache_entries": 1, "judge_seconds_count": 6} {
		if got := s.metric("1", "pgpilot_classifier_"+name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	connected(t, c, 0)
	if left, err := os.ReadDir(s.dir.Path()); err != nil {
		t.Error(err)
	} else {
		for _, f := range left {
			if strings.HasPrefix(f.Name(), "classifier") {
				t.Errorf("%s is left behind", f.Name())
			}
		}
	}
}

// How servers are reached changes with a restart: a file that has it otherwise is not taken in
// part, and the log says why.
func TestANewWayToServersNeedsARestart(t *testing.T) {
	for key, part := range map[string]map[string]any{
		"server_tls.sslmode": {"server_tls": map[string]any{"sslmode": "require"}},
		"tcp.user_timeout":   {"tcp": map[string]any{"user_timeout": "7s"}},
	} {
		s := newStand(t)
		p := s.start("1")
		connected(t, s.client(), 1)
		s.configure(part)
		until(t, "the file is refused", func() bool { return s.metric("1", "pgpilot_config_refused") == 1 })
		p.stop(syscall.SIGTERM)
		if log := p.log.String(); !strings.Contains(log, key) || !strings.Contains(log, "restart") {
			t.Errorf("nothing is said of %s:\n%s", key, log)
		}
	}
}

// A router goes on without a hitch while classifiers are killed and come back.
func TestClassifiersAreKilledAndComeBack(t *testing.T) {
	s := newStand(t)
	one, two := s.start("1"), s.start("2")
	c := s.client()
	connected(t, c, 2)
	load := startAskers(t, c, 4, func(text string, err error) { t.Errorf("%s: %v", text, err) })
	load.flow()
	for range 3 {
		one.stop(syscall.SIGKILL)
		load.flow()
		one = s.start("1")
		connected(t, c, 2)
		load.flow()
	}
	two.stop(syscall.SIGTERM)
	load.flow()
	if got := s.metric("1", "pgpilot_classifier_requests_total"); got == 0 {
		t.Error("the restarted classifier was not asked")
	}
	load.end()
}

// At log level debug each judgement has its line, with what the statement looks like
// and no constant of it.
func TestEachJudgementIsLogged(t *testing.T) {
	s := newStand(t)
	p := s.start("1", "-log-level", "debug")
	c := s.client()
	connected(t, c, 1)
	const n = 2000
	var answered sync.WaitGroup
	for i := range n {
		answered.Add(1)
		text := fmt.Sprintf("SELECT c%d FROM pg_catalog.pg_class", i)
		c.Ask(verdict.Request{Key: keyOf(t, text), Database: "app", Text: text}, func(v verdict.Verdict, err error) {
			if err != nil || v.Kind != verdict.Read {
				t.Errorf("%s: %v, %v", text, v, err)
			}
			answered.Done()
		})
	}
	answered.Wait()
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	if lines := strings.Count(p.log.String(), "msg=judged"); lines != n {
		t.Fatalf("%d lines of %d are in the log", lines, n)
	}
}
