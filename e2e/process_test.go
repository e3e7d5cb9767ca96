package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// process is one service's process, this test's own.
type process struct {
	service, id string
	cmd         *exec.Cmd
	log         *logBuffer
	exited      chan struct{} // closed once the process has been waited for
}

// spawn starts a service. The kernel kills it when the test process dies, which it
// ties to the thread that forked: the waiting goroutine keeps its thread.
func spawn(t testing.TB, service, id, configFile string) *process {
	t.Helper()
	p := &process{
		service: service, id: id, log: &logBuffer{}, exited: make(chan struct{}),
		cmd: exec.Command(filepath.Join(os.Getenv(binEnv), service), "-config", configFile, "-id", id),
	}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		defer close(p.exited)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // the exit status is kept in cmd.ProcessState
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", service, err)
	}
	return p
}

func (p *process) String() string { return p.service + "." + p.id }

// signal sends a signal and waits for the process to end.
func (p *process) signal(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s) // it may have ended already
	<-p.exited
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// descriptors counts the process's open descriptors.
func (p *process) descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		t.Fatalf("list the descriptors of %s: %v", p, err)
	}
	return len(entries)
}

// memory gives a field of the process's status in bytes: VmRSS now, VmHWM at its
// highest since forgetPeak.
func (p *process) memory(t testing.TB, field string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatalf("read the memory of %s: %v", p, err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				t.Fatalf("read %s of %s: %v", field, p, err)
			}
			return kb << 10
		}
	}
	t.Fatalf("%s is not in the status of %s", field, p)
	return 0
}

// forgetPeak sets the highest memory use back to the present one (proc(5), clear_refs).
func (p *process) forgetPeak(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Fatalf("reset the peak memory of %s: %v", p, err)
	}
}

// logBuffer keeps what a process says.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// tail gives the last n lines.
func (b *logBuffer) tail(n int) string {
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
