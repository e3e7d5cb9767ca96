package service

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

// check runs the service's program with -check.
func (f folder) check(args ...string) (code int, said string) {
	var out logs
	code = run(context.Background(), append([]string{"-config", f.config(), "-check"}, args...), io.Discard, &out, Service{Name: rundir.Router})
	return code, out.String()
}

func TestCheck(t *testing.T) {
	f := newFolder(t)
	f.write("")
	expect := func(when string, wantCode int, wantSaid string, args ...string) {
		t.Helper()
		if code, said := f.check(args...); code != wantCode || !strings.Contains(said, wantSaid) || wantSaid == "" && said != "" {
			t.Errorf("%s: -check %v: code %d, said %q; want %d, %q", when, args, code, said, wantCode, wantSaid)
		}
	}
	expect("nothing runs", exitError, "no router runs here", "ready")
	if _, err := os.Stat(f.run()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the check made the run directory: %v", err)
	}

	a := f.start()
	expect("starting", exitClean, "", "alive")
	expect("starting", exitError, "router.1.http.sock says 503", "ready")
	a.env.Health.Ready()
	expect("ready", exitClean, "", "ready")

	b := f.start("-id", "blue")
	expect("one of two is not ready", exitError, "router.blue.http.sock says 503", "ready")
	expect("one of two is not ready", exitClean, "", "ready", "-id", "1")
	expect("one of two is not ready", exitError, "router.blue.http.sock says 503", "ready", "-id", "blue")
	b.env.Health.Ready()
	expect("both ready", exitClean, "", "ready")
	b.env.Health.Set("bus", errors.New("not connected"))
	expect("a part is ill", exitError, "not connected", "ready")
	expect("a part is ill", exitClean, "", "alive")
	b.env.Health.Set("bus", nil)

	// A service goes on with the configuration it has when the file is spoilt.
	if err := os.WriteFile(f.config(), []byte(`{"primry": "a:1", "run_dir": "`+f.run()+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("a refused file", exitClean, "", "ready")

	expect("nobody has this id", exitError, "it does not run", "ready", "-id", "green")
	expect("what to ask", exitUsage, "want ready or alive", "fine")
	for _, r := range []*running{a, b} {
		r.stop()
		r.release <- nil
		<-r.code
	}
	// What a killed instance leaves behind answers no question.
	if err := os.WriteFile(filepath.Join(f.run(), "router.7.http.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect("all ended", exitError, "no router runs here", "ready")
}

// Containers share the run directory, but not their processes: each asks only its own.
func TestCheckAsksThisContainerOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a PID namespace without becoming another user")
	}
	f := newFolder(t)
	f.write("")
	f.spawn("obedient").expect("msg=ready")

	for _, c := range []struct {
		flags uintptr
		want  string
	}{{0, ""}, {syscall.CLONE_NEWPID, "no classifier runs here"}} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-config", f.config(), "-check", "ready")
		cmd.Env = append(os.Environ(), childMode+"=serve")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: c.flags}
		said, err := cmd.CombinedOutput()
		if (err == nil) != (c.want == "") || !strings.Contains(string(said), c.want) {
			t.Errorf("namespaces %#x: %v, said %q; want %q", c.flags, err, said, c.want)
		}
	}
}
