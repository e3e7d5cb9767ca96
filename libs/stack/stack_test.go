package stack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/stack"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// patience bounds every wait; generous, since a loaded machine must not fail a
// test that would pass.
const patience = 2 * time.Minute

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// exists reports whether a process that is no zombie has the pid.
func exists(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// settings is a configuration with free ports and a run directory of the test's.
func settings(t *testing.T, c *lab.Cluster, folder string) *config.Config {
	cfg := stacktest.Config(c)
	cfg.RunDir = filepath.Join(folder, "run")
	cfg.Listen, cfg.Observability.MetricsAddr, cfg.Bus.Listen = labtest.FreeAddress(t), "", ""
	return cfg
}

// folder is short: a socket's path is limited.
func folder(t *testing.T) string {
	dir, err := os.MkdirTemp("", "st")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "stack")
}

func TestProcessesComeAndGo(t *testing.T) {
	p := stacktest.Start(t, stacktest.Options{})
	ctx := within(t)

	router := p.Service(rundir.Router, 1)
	first := router.Pid()
	if err := router.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if router.Running() || exists(first) {
		t.Fatal("the router runs on after a kill")
	}
	if err := router.WaitReady(ctx); err == nil || !strings.Contains(err.Error(), "router.1 did not start: it ended with signal: killed") {
		t.Errorf("waiting for a killed router says %v", err)
	}
	if err := router.Start(ctx); err != nil {
		t.Fatal(err)
	}
	second := router.Pid()
	if second == 0 || second == first {
		t.Fatalf("pid %d after %d", second, first)
	}
	if err := router.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if third := router.Pid(); third == 0 || third == second {
		t.Fatalf("pid %d after %d", third, second)
	}
	if exists(second) {
		t.Error("the router before the restart runs on")
	}

	added, err := p.AddRouter(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if added.Name() != "router.2" || !added.Running() {
		t.Errorf("added %s, running %v", added.Name(), added.Running())
	}
	memory, err := added.ResidentMemory()
	if err != nil || memory < 1<<20 {
		t.Errorf("resident memory %d bytes, %v", memory, err)
	}
	if _, err := added.CPUTime(); err != nil {
		t.Error(err)
	}
	if err := p.WaitReplicas(ctx, p.DSN); err != nil {
		t.Error(err)
	}
	var names []string
	for _, one := range p.Processes() {
		names = append(names, one.Name())
	}
	if got := strings.Join(names, " "); got != "listener.1 router.1 router.2 classifier.1 lagpoller.1" {
		t.Errorf("processes %s", got)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	c := labtest.Start(t, 0)
	for name, detach := range map[string]bool{"owned": false, "detached": true} {
		t.Run(name, func(t *testing.T) {
			ctx, dir := within(t), folder(t)
			opts := stack.Options{Dir: dir, BinDir: stacktest.Programs(t), Config: settings(t, c, dir), Routers: 2, Detach: detach}
			s, err := stack.Start(ctx, opts)
			if err != nil {
				t.Fatal(err)
			}
			var pids []int
			for _, p := range s.Processes() {
				pids = append(pids, p.Pid())
			}
			// A killed process leaves its sockets.
			if err := s.Service(rundir.Router, 2).Kill(ctx); err != nil {
				t.Fatal(err)
			}
			if !detach {
				if closed, err := stack.CloseAbandoned(ctx, dir); closed || err != nil {
					t.Fatalf("a stack in use was taken for abandoned: %v, %v", closed, err)
				}
			}
			if err := s.Close(ctx); err != nil {
				t.Fatal(err)
			}
			for _, pid := range pids {
				if exists(pid) {
					t.Errorf("process %d runs on", pid)
				}
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				left, _ := filepath.Glob(dir + "/*")
				t.Errorf("%s is left, with %v", dir, left)
			}
			if err := stack.CheckAddress(ctx, opts.Config.Listen); err != nil {
				t.Error(err)
			}
			if err := s.Close(ctx); err != nil {
				t.Errorf("closing again: %v", err)
			}
		})
	}
}

func TestTermThenKill(t *testing.T) {
	c := labtest.Start(t, 0)
	ctx, dir := within(t), folder(t)
	s, err := stack.Start(ctx, stack.Options{
		Dir: dir, BinDir: stacktest.Programs(t), Config: settings(t, c, dir), StopTimeout: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	hangs := s.Service(rundir.Lagpoller, 1)
	pid := hangs.Pid()
	if err := hangs.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if exists(pid) {
		t.Error("a process that does not listen to SIGTERM runs on")
	}
}

func TestDetachedStackIsFoundAgain(t *testing.T) {
	c := labtest.Start(t, 0)
	ctx, dir := within(t), folder(t)
	cfg := settings(t, c, dir)
	file := filepath.Join(filepath.Dir(dir), "real.json")
	data, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	opts := stack.Options{Dir: dir, BinDir: stacktest.Programs(t), ConfigPath: file, Detach: true}
	s, err := stack.Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	opened, err := stack.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]int{}
	for _, p := range opened.Processes() {
		if before[p.Name()] = p.Pid(); p.Pid() == 0 {
			t.Errorf("%s is not seen to run", p.Name())
		}
		if err := p.WaitReady(ctx); err != nil {
			t.Error(err)
		}
		if up, err := p.Uptime(); err != nil || up < 0 || up > patience {
			t.Errorf("%s runs since %v, %v", p.Name(), up, err)
		}
	}
	if err := opened.Service(rundir.Classifier, 1).Kill(ctx); err != nil {
		t.Fatal(err)
	}

	// Bringing it up again starts what is dead and leaves the rest alone.
	again, err := stack.Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range again.Processes() {
		if killed := p.Service() == rundir.Classifier; (p.Pid() != before[p.Name()]) != killed || p.Pid() == 0 {
			t.Errorf("%s has pid %d, had %d", p.Name(), p.Pid(), before[p.Name()])
		}
	}

	// What has to be given up by one process before another can have the new value of it
	// is no matter for one after another.
	moved := *cfg
	moved.Listen = labtest.FreeAddress(t)
	rewrite := func(c *config.Config) {
		data, err := json.Marshal(c)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rewrite(&moved)
	if err := again.Roll(ctx, func(p *stack.Process) { t.Errorf("%s was restarted", p.Name()) }); err == nil ||
		err.Error() != "nothing is restarted: listen has another value in "+file+" than what runs, and services cannot be replaced one by one then: change it back, or stop everything and start it again" {
		t.Errorf("another address: %v", err)
	}
	rewrite(cfg)
	rolled := 0
	if err := again.Roll(ctx, func(*stack.Process) { rolled++ }); err != nil || rolled != len(before) {
		t.Errorf("%d of %d were restarted: %v", rolled, len(before), err)
	}
	opts.ConfigPath = filepath.Join(dir, "other.json")
	if _, err := stack.Start(ctx, opts); err == nil || !strings.Contains(err.Error(), "runs with the configuration "+file) {
		t.Errorf("another configuration: %v", err)
	}
	if err := opened.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the caller's configuration: %v", err)
	}
	if _, err := stack.Open(dir); !errors.Is(err, stack.ErrNoStack) {
		t.Errorf("opening a closed stack: %v", err)
	}
}

func TestAnotherProgramsPidIsLeftAlone(t *testing.T) {
	ctx, dir := within(t), folder(t)
	stranger := exec.Command("sleep", "1000")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- stranger.Wait() }()
	t.Cleanup(func() {
		_ = stranger.Process.Kill() // it may have been ended by what is tested
		<-ended
	})
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	// The state of a router that has ended, whose pid the stranger has now.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	state := fmt.Sprintf(`{"boot_id": %q, "config": "/gone.json", "run_dir": "%s/run",
		"processes": [{"service": "router", "number": 1, "pid": %d, "start": 1}]}`,
		strings.TrimSpace(string(boot)), dir, stranger.Process.Pid)
	if err := os.WriteFile(filepath.Join(dir, "stack.json"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := stack.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s.Service(rundir.Router, 1).Running() {
		t.Error("a stranger is taken for the router")
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		ended <- err
		t.Errorf("the stranger was ended: %v", err)
	default:
	}
}

func TestRefusals(t *testing.T) {
	c := labtest.Start(t, 0)
	bin := stacktest.Programs(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	tests := []struct {
		name   string
		change func(*stack.Options)
		want   []string
	}{
		{"taken port", func(o *stack.Options) { o.Config.Listen = taken.Addr().String() },
			[]string{"port " + port + " is taken by stack.test (pid " + fmt.Sprint(os.Getpid()) + "): stop it, or change listen in "}},
		{"missing program", func(o *stack.Options) { o.BinDir = "/nowhere" },
			[]string{`the program lagpoller is not in /nowhere: run "make build"`}},
		{"no configuration", func(o *stack.Options) { o.Config = nil }, []string{"one configuration"}},
		{"bad configuration", func(o *stack.Options) { o.Config.Pool.Mode = "statement" }, []string{"pool.mode"}},
		{"service that fails", func(o *stack.Options) { o.Config.ListenUnix = "/proc/none" },
			[]string{"listener.1 did not start: it ended with exit status 1; the end of its log", "/proc/none"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := folder(t)
			o := stack.Options{Dir: dir, BinDir: bin, Config: settings(t, c, dir)}
			test.change(&o)
			s, err := stack.Start(within(t), o)
			if err == nil {
				_ = s.Close(within(t))
				t.Fatal("it started")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), "router.1 ") {
				t.Errorf("a part that is well is blamed: %v", err)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				left, _ := filepath.Glob(dir + "/*")
				t.Errorf("%s is left, with %v", dir, left)
			}
		})
	}
}

func TestUnreadyPartIsNamed(t *testing.T) {
	c := labtest.Start(t, 0)
	dir := folder(t)
	ctx, cancel := context.WithTimeout(within(t), 30*time.Second) // for all others to be ready
	defer cancel()
	// A listener waits for a router, which is left out.
	s, err := stack.Start(ctx, stack.Options{
		Dir: dir, BinDir: stacktest.Programs(t), Config: settings(t, c, dir), Routers: stack.None,
	})
	if err == nil {
		_ = s.Close(within(t))
		t.Fatal("it is ready")
	}
	for _, want := range []string{"listener.1 is not ready: routers: no router is running", "end of its log", "listener.1.log"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}
