package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is one service instance of a [Stack]; it stays the same over restarts. Its
// methods may be called from several goroutines, but Start, Restart, Terminate and
// Kill of one process only one at a time.
type Process struct {
	stack   *Stack
	service string
	number  int

	mu    sync.Mutex
	id    identity // of the last start
	child *child   // nil if another program started it
}

// Service is the service's name.
func (p *Process) Service() string { return p.service }

// ID is the instance's id, its number.
func (p *Process) ID() string { return strconv.Itoa(p.number) }

// Name is service.id, as in "router.1".
func (p *Process) Name() string { return p.service + "." + p.ID() }

// LogFile is the path of the log, to which every start appends.
func (p *Process) LogFile() string { return filepath.Join(p.stack.st.LogDir, p.Name()+".log") }

func (p *Process) last() (identity, *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id, p.child
}

// Pid is the running process's pid, 0 when none is running.
func (p *Process) Pid() int {
	if id, _ := p.last(); id.alive() {
		return id.PID
	}
	return 0
}

// Running says whether the process exists.
func (p *Process) Running() bool { return p.Pid() != 0 }

// Uptime is how long the process has been running.
func (p *Process) Uptime() (time.Duration, error) {
	id, _ := p.last()
	return id.uptime()
}

// ResidentMemory is the process's resident set, in bytes.
func (p *Process) ResidentMemory() (int64, error) {
	id, _ := p.last()
	stat, ok := id.stat()
	if !ok {
		return 0, fmt.Errorf("read the memory of %s: %w", p.Name(), os.ErrProcessDone)
	}
	return int64(stat.ResidentMemory()), nil
}

// CPUTime is the processor time, user and system, that the process has used, as the
// kernel counts it: in hundredths of a second.
func (p *Process) CPUTime() (time.Duration, error) {
	id, _ := p.last()
	stat, ok := id.stat()
	if !ok {
		return 0, fmt.Errorf("read the processor time of %s: %w", p.Name(), os.ErrProcessDone)
	}
	return time.Duration(stat.CPUTime() * float64(time.Second)), nil
}

// OldBuild says that the program was built anew since the process started.
func (p *Process) OldBuild() bool {
	pid := p.Pid()
	if pid == 0 {
		return false
	}
	runs, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false
	}
	built, err := os.Stat(p.stack.program(p.service))
	return err == nil && !os.SameFile(runs, built)
}

// Start starts the process unless it is running, and returns when it is ready. One
// that does not get ready is left as it is.
func (p *Process) Start(ctx context.Context) error {
	if !p.Running() {
		if err := p.launch(); err != nil {
			return err
		}
		if err := p.stack.record(ctx, p); err != nil {
			return err
		}
	}
	return p.WaitReady(ctx)
}

// launch starts the process without waiting for it.
func (p *Process) launch() error {
	s := p.stack
	log, err := os.OpenFile(p.LogFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", p.Name(), err)
	}
	defer log.Close()
	args := []string{"-config", s.st.Config, "-id", p.ID()}
	if s.st.LogLevel != "" {
		args = append(args, "-log-level", s.st.LogLevel)
	}
	cmd := exec.Command(s.program(p.service), args...)
	cmd.Dir = s.st.WorkDir
	cmd.Stdout, cmd.Stderr = log, log
	// A supervisor of the caller's must not take the services' states for the caller's.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "NOTIFY_SOCKET=") })
	started, err := spawn(cmd, !s.detach)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name(), err)
	}
	p.mu.Lock()
	p.id, p.child = started.id, started
	p.mu.Unlock()
	s.log.Info("started", logProcess, p.Name(), logPID, started.id.PID)
	return nil
}

// ending says how the process ended, as far as it is known.
func (p *Process) ending() error {
	_, child := p.last()
	if child == nil {
		return errEnded
	}
	<-child.exited // it is dead: the kernel has told, or is about to tell, its parent
	if child.err != nil {
		return fmt.Errorf("%w with %w", errEnded, child.err)
	}
	return fmt.Errorf("%w without an error", errEnded)
}

// Signal sends a signal, such as SIGHUP for a reload.
func (p *Process) Signal(sig syscall.Signal) error {
	id, _ := p.last()
	if err := id.signal(sig); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name(), err)
	}
	return nil
}

// Terminate asks the process to end (SIGTERM) and returns when it has.
func (p *Process) Terminate(ctx context.Context) error { return p.end(ctx, syscall.SIGTERM) }

// Kill ends the process at once (SIGKILL) and returns when it is gone. Its sockets
// stay, as after any crash.
func (p *Process) Kill(ctx context.Context) error { return p.end(ctx, syscall.SIGKILL) }

// Restart ends the process with SIGTERM if it is running, starts it, and returns
// when it is ready.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.Terminate(ctx); err != nil {
		return err
	}
	return p.Start(ctx)
}

// end sends sig and waits; a process that is gone already is no error.
func (p *Process) end(ctx context.Context, sig syscall.Signal) error {
	id, child := p.last()
	if err := id.signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.Name(), err)
	}
	if err := until(ctx, func() (bool, error) { return !id.alive(), nil }); err != nil {
		return fmt.Errorf("wait for %s (pid %d) to end: %w", p.Name(), id.PID, err)
	}
	if child != nil {
		<-child.exited
	}
	return nil
}

// stop ends the process with SIGTERM, and with SIGKILL if that takes longer than
// bound.
func (p *Process) stop(ctx context.Context, bound time.Duration) error {
	patient, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if err := p.Terminate(patient); err == nil || patient.Err() == nil {
		return err
	}
	p.stack.log.Info("killing, since it did not end in time", logProcess, p.Name())
	return p.Kill(ctx)
}
