package service

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// childMode makes the test binary a service, for signals need a process.
const childMode = "PGPILOT_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		os.Exit(Main(Service{Name: rundir.Classifier, Serve: func(ctx context.Context, env *Env) error {
			env.Health.Ready()
			for {
				select {
				case c := <-env.Reloads:
					env.Log.Info("applied", obs.KeyCount, c.Pool.MaxSize)
				case <-ctx.Done():
					if mode == "stuck" {
						env.Log.Info("stuck")
						select {} // never finishes, whatever happens
					}
					return ctx.Err()
				}
			}
		}}))
	}
	os.Exit(m.Run())
}

// child is a service in a process of its own.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
}

func (f folder) spawn(mode string) *child {
	f.t.Helper()
	cmd := exec.Command(os.Args[0], "-config", f.config())
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	c := &child{f.t, cmd, make(chan string, 1000)}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	f.t.Cleanup(func() { _ = cmd.Process.Kill() }) // already gone unless the test failed
	return c
}

// expect waits for a line of the log.
func (c *child) expect(part string) {
	c.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("the process ended without logging %q", part)
			}
			if strings.Contains(line, part) {
				return
			}
		case <-deadline:
			c.t.Fatalf("never logged %q", part)
		}
	}
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// wait gives the exit code.
func (c *child) wait() int {
	c.t.Helper()
	for range c.lines {
	}
	var exit *exec.ExitError
	if err := c.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return c.cmd.ProcessState.ExitCode()
}

func TestSignals(t *testing.T) {
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		f := newFolder(t)
		f.write(`, "pool": {"max_size": 7}`)
		c := f.spawn("obedient")
		c.expect("msg=ready")
		// The file is as it was; what it refers to may have changed.
		c.signal(syscall.SIGHUP)
		c.expect("msg=applied service=classifier instance=1 count=7")
		c.signal(end)
		if code := c.wait(); code != exitClean {
			t.Errorf("%s: exit code %d", end, code)
		}
		if left := f.left(); len(left) != 0 {
			t.Errorf("%s: left behind: %v", end, left)
		}
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	f := newFolder(t)
	f.write("")
	c := f.spawn("stuck")
	c.expect("msg=ready")
	c.signal(syscall.SIGTERM)
	c.expect("msg=stuck")
	c.signal(syscall.SIGTERM)
	if code := c.wait(); code != exitError {
		t.Errorf("exit code %d", code)
	}
}

// A reload that is asked for while the service starts does not end it, and takes place.
func TestHangupDuringTheStart(t *testing.T) {
	f := newFolder(t)
	f.write(`, "pool": {"max_size": 7}`)
	text, err := os.ReadFile(f.config())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.config()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(f.config(), 0o600); err != nil {
		t.Fatal(err)
	}
	c := f.spawn("obedient")
	pipe, err := os.OpenFile(f.config(), os.O_WRONLY, 0) // waits until the process reads its configuration
	if err != nil {
		t.Fatal(err)
	}
	c.signal(syscall.SIGHUP)
	f.write(`, "pool": {"max_size": 7}`)
	if _, err := pipe.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	c.expect("msg=applied service=classifier instance=1 count=7")
	c.signal(syscall.SIGTERM)
	if code := c.wait(); code != exitClean {
		t.Errorf("exit code %d", code)
	}
}
