package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// patience bounds every wait for a condition; none takes this long unless
// something is broken.
const patience = 30 * time.Second

// folder holds a configuration and a run directory under a path short enough for
// sockets.
type folder struct {
	t    *testing.T
	path string
}

func newFolder(t *testing.T) folder {
	t.Helper()
	path, err := os.MkdirTemp("", "sv")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(path) })
	return folder{t, path}
}

func (f folder) config() string { return filepath.Join(f.path, "pgpilot.json") }
func (f folder) run() string    { return filepath.Join(f.path, "run") }

// write replaces the configuration by a minimal one with more keys, as an editor
// does: a new file is renamed over the old one.
func (f folder) write(more string) {
	f.t.Helper()
	text := fmt.Sprintf(`{"run_dir": %q, "primary": "127.0.0.1:1", "users": [{"name": "u", "password": "unspoken"}]%s}`, f.run(), more)
	next := f.config() + ".new"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(next, f.config()); err != nil {
		f.t.Fatal(err)
	}
}

// left lists what is in the run directory.
func (f folder) left() []string {
	entries, err := os.ReadDir(f.run())
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// get asks an instance's HTTP socket.
func (f folder) get(instance, path string) (int, string) {
	f.t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return rundir.Dial(ctx, filepath.Join(f.run(), instance+".http.sock"))
		},
	}}
	r, err := client.Get("http://pgpilot" + path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func (f folder) eventually(what string, cond func() bool) {
	f.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			f.t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

// logs is a writer that can be read meanwhile.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// running is a service in this process.
type running struct {
	env  *Env
	stop context.CancelFunc
	// release lets serve return after it was told to stop.
	release chan error
	code    chan int
	logs    *logs
}

// start runs a service up to its serve function.
func (f folder) start(args ...string) *running {
	f.t.Helper()
	return f.startChecked(nil, args...)
}

// startChecked is start of a service that checks configurations.
func (f folder) startChecked(check func(*config.Config) error, args ...string) *running {
	f.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &running{stop: stop, release: make(chan error, 1), code: make(chan int, 1), logs: &logs{}}
	envs := make(chan *Env, 1)
	go func() {
		r.code <- run(ctx, append([]string{"-config", f.config()}, args...), io.Discard, r.logs, Service{Name: rundir.Router, Check: check, Serve: func(ctx context.Context, env *Env) error {
			envs <- env
			<-ctx.Done()
			return <-r.release
		}})
	}()
	select {
	case r.env = <-envs:
	case code := <-r.code:
		f.t.Fatalf("ended with code %d before serving:\n%s", code, r.logs)
	}
	f.t.Cleanup(func() { // for a test that failed half-way
		stop()
		select {
		case r.release <- nil:
		default:
		}
	})
	return r
}

func TestLifeOfAService(t *testing.T) {
	f := newFolder(t)
	f.write("")
	r := f.start("-log-level", "debug")
	if r.env.Claim.ID() != "1" || r.env.Dir.Path() != f.run() || r.env.Version != Version() || r.env.Config.Primary.Address != "127.0.0.1:1" {
		t.Errorf("got instance %s in %s, version %s, configuration %s", r.env.Claim.ID(), r.env.Dir.Path(), r.env.Version, r.env.Config)
	}

	if code, body := f.get("router.1", "/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %s", code, body)
	}
	if code, body := f.get("router.1", "/readyz"); code != 503 {
		t.Errorf("/readyz before Ready: %d %s", code, body)
	}
	r.env.Health.Ready()
	if code, body := f.get("router.1", "/readyz"); code != 200 {
		t.Errorf("/readyz after Ready: %d %s", code, body)
	}
	r.env.Health.Set("bus", errors.New("not connected"))
	if code, body := f.get("router.1", "/readyz"); code != 503 || !strings.Contains(body, "not connected") {
		t.Errorf("/readyz without a bus: %d %s", code, body)
	}
	r.env.Health.Set("bus", nil)
	if code, body := f.get("router.1", "/metrics"); code != 200 || !strings.Contains(body, "pgpilot_build_info{") || !strings.Contains(body, `pgpilot_config_reloads_total{result="ok"} 0`) {
		t.Errorf("/metrics: %d %s", code, body)
	}
	if code, _ := f.get("router.1", "/debug/pprof/"); code != 404 {
		t.Errorf("/debug/pprof/ is served though it is not configured: %d", code)
	}

	r.stop()
	f.eventually("unready while it stops", func() bool {
		code, body := f.get("router.1", "/readyz")
		return code == 503 && strings.Contains(body, "shutting down")
	})
	r.release <- context.Canceled
	if code := <-r.code; code != exitClean {
		t.Errorf("exit code %d", code)
	}
	if left := f.left(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	text := r.logs.String()
	for _, want := range []string{"service=router", "instance=1", "msg=ready", "msg=stopped", "primary"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the log:\n%s", want, text)
		}
	}
	if strings.Contains(text, "unspoken") {
		t.Errorf("a password is in the log:\n%s", text)
	}
}

func TestInstancesOfOneService(t *testing.T) {
	f := newFolder(t)
	f.write(`, "observability": {"pprof": true}`)
	a, b := f.start(), f.start("-id", "blue")
	if a.env.Claim.ID() != "1" || b.env.Claim.ID() != "blue" {
		t.Errorf("got ids %s and %s", a.env.Claim.ID(), b.env.Claim.ID())
	}
	if code, _ := f.get("router.blue", "/debug/pprof/"); code != 200 {
		t.Errorf("/debug/pprof/: %d", code)
	}
	var out logs
	code := run(context.Background(), []string{"-config", f.config(), "-id", "blue"}, io.Discard, &out, Service{Name: rundir.Router})
	if code != exitError || !strings.Contains(out.String(), "already running") {
		t.Errorf("a second blue: code %d\n%s", code, &out)
	}
	for _, r := range []*running{a, b} {
		r.stop()
		r.release <- nil
		if code := <-r.code; code != exitClean {
			t.Errorf("exit code %d", code)
		}
	}
	if left := f.left(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Where no listener relays them, the pages are on a port of the instance's own.
func TestPagesOnAPort(t *testing.T) {
	f := newFolder(t)
	f.write("")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()

	var out logs
	code := run(context.Background(), []string{"-config", f.config(), "-http", address}, io.Discard, &out, Service{Name: rundir.Router})
	if code != exitError || !strings.Contains(out.String(), "serve -http: listen tcp "+address) {
		t.Errorf("a port that is taken: code %d\n%s", code, &out)
	}
	if left := f.left(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}

	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := f.start("-http", address)
	answer := func(path string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	if healthz, readyz, metrics := answer("/healthz"), answer("/readyz"), answer("/metrics"); healthz != 200 || readyz != 503 || metrics != 200 {
		t.Errorf("/healthz %d, /readyz %d, /metrics %d", healthz, readyz, metrics)
	}
	if code, _ := f.get("router.1", "/healthz"); code != 200 {
		t.Errorf("the socket's /healthz: %d", code)
	}
	r.stop()
	r.release <- nil
	if code := <-r.code; code != exitClean {
		t.Errorf("exit code %d", code)
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("the port is still open")
	}
}

func TestAServiceThatFails(t *testing.T) {
	f := newFolder(t)
	f.write("")
	var out logs
	code := run(context.Background(), []string{"-config", f.config()}, io.Discard, &out, Service{Name: rundir.Router, Serve: func(context.Context, *Env) error {
		return errors.New("listen on port 1: taken")
	}})
	if code != exitError || !strings.Contains(out.String(), "listen on port 1: taken") {
		t.Errorf("code %d\n%s", code, &out)
	}
	if left := f.left(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}

	// An error while stopping is one too.
	r := f.start()
	r.stop()
	r.release <- errors.New("flush: broken")
	if code := <-r.code; code != exitError || !strings.Contains(r.logs.String(), "flush: broken") {
		t.Errorf("code %d\n%s", code, r.logs)
	}
}

func TestUsage(t *testing.T) {
	f := newFolder(t)
	t.Chdir(f.path)
	bad := filepath.Join(f.path, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"primry": "a:1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"version", []string{"-version"}, exitClean, "router " + Version() + "\n", ""},
		{"help", []string{"-help"}, exitClean, "", "configuration file"},
		{"unknown flag", []string{"-verbose"}, exitUsage, "", "flag provided but not defined: -verbose"},
		{"bad level", []string{"-log-level", "loud"}, exitUsage, "", `log level "loud" does not exist: use debug, info, warn or error`},
		{"argument", []string{"pgpilot.json"}, exitUsage, "", `unexpected argument "pgpilot.json": every option of router is a flag, see -help`},
		{"bad configuration", []string{"-config", bad}, exitUsage, "", bad + ":1: primry: there is no such key: did you mean primary?\n"},
		{"missing configuration", []string{"-config", "none.json"}, exitUsage, "", "configuration none.json does not exist: name another file with -config\n"},
	}
	for _, tt := range tests {
		var stdout, stderr logs
		code := run(context.Background(), tt.args, &stdout, &stderr, Service{Name: rundir.Router})
		if code != tt.code || stdout.String() != tt.stdout || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%s: code %d, stdout %q, stderr %q", tt.name, code, &stdout, &stderr)
		}
	}
}

func TestSystemdIsTold(t *testing.T) {
	f := newFolder(t)
	f.write("")
	path := filepath.Join(f.path, "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	expect := func(want string) {
		t.Helper()
		b := make([]byte, 64)
		if err := l.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		n, err := l.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Fatalf("got %q, %v; want %q", b[:n], err, want)
		}
	}
	r := f.start()
	r.env.Health.Ready()
	expect("READY=1")
	r.stop()
	expect("STOPPING=1")
	r.release <- nil
	<-r.code
}
