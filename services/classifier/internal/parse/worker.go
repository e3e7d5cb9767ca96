package parse

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// worker is the owner's side of one process. It is used by one goroutine at a time.
type worker struct {
	cmd    *exec.Cmd
	in     *os.File // closed by end
	out    *os.File // closed by end
	frames frames
	buf    []byte
	limits *Limits
	stderr head
	// gone is closed when the process has ended; its ProcessState is valid then.
	gone chan struct{}
	// done is closed by end: the keeper may start another.
	done chan struct{}
	// served is the number of texts it has answered.
	served int
	// receded says that it has been given a low priority, for good: only a privileged
	// process could raise it again.
	receded bool
}

// self is this program, also after its file was replaced by a newer version.
const self = "/proc/self/exe"

// startTimeout bounds the time until a new process answers. It is long: a busy
// machine is no reason to start more processes.
const startTimeout = 10 * time.Second

// start gives a worker that has answered once.
func start(limits *Limits) (*worker, error) {
	w := &worker{limits: limits, gone: make(chan struct{}), done: make(chan struct{})}
	w.cmd = exec.Command(self, Subcommand, strconv.FormatUint(limits.Memory, 10), strconv.Itoa(limits.Tree))
	w.cmd.Env = []string{"GOMAXPROCS=1"} // the classifier's may hold secrets
	w.cmd.Stderr = &w.stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // see recede
	inside, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	out, outside, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), inside.Close(), in.Close())
	}
	w.in, w.out = in, out
	w.cmd.Stdin, w.cmd.Stdout = inside, outside
	err = w.cmd.Start()
	inside.Close()
	outside.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a parser process: %w", err), in.Close(), out.Close())
	}
	go func() {
		_ = w.cmd.Wait() // the state tells
		close(w.gone)
	}()
	if a, err := w.hello(); err != nil || a.outcome != outcomeParsed {
		w.end()
		return nil, fmt.Errorf("start a parser process: it does not answer (%w): %s", err, w.epitaph())
	}
	return w, nil
}

func (w *worker) hello() (answer, error) {
	if err := w.out.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return answer{}, err
	}
	if _, err := w.in.Write(appendRequest(nil, "SELECT 1", false)); err != nil {
		return answer{}, err
	}
	f := frames{r: w.out}
	return f.answer()
}

// errLate says that an answer took longer than Limits.CPU.
var errLate = errors.New("the parser takes too long")

// errIdle says that there was no answer within Limits.Wall, though the process has hardly
// computed: it was stopped, or the machine has no time for it. No text makes a parser wait.
var errIdle = errors.New("the parser process does not get to work")

// errUnread says that the process had ended before it was given the text.
var errUnread = errors.New("the parser process is gone")

// ask has a text parsed. After any error the worker must be ended. The answer's
// body is valid until the next call.
func (w *worker) ask(text string, normalize bool) (answer, error) {
	select {
	case <-w.gone:
		return answer{}, errUnread
	default:
	}
	watch := watch{w: w, began: time.Now(), look: tedious}
	watch.cpu, _ = w.cpu()
	w.frames.r = &watch
	watch.wait()
	w.buf = appendRequest(w.buf[:0], text, normalize)
	// A process that reads nothing is caught by the same clock as one that does not
	// answer: the pipe takes long texts only as it reads them.
	_ = w.in.SetWriteDeadline(watch.began.Add(w.limits.Wall))
	_, err := w.in.Write(w.buf)
	if cap(w.buf) > keepBuffer {
		w.buf = nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return answer{}, errIdle
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		return answer{}, fmt.Errorf("send a text: %w", err)
	}
	// After EPIPE the process is ending, and reading shows how.
	a, err := w.frames.answer()
	if err == nil {
		w.served++
	}
	return a, err
}

// watch reads answers for as long as the process may work on one text. What
// counts is the time it computes: on a busy machine an innocent text waits.
type watch struct {
	w     *worker
	began time.Time
	cpu   time.Duration
	// look is when to look at the clock next, next when that will be.
	look time.Duration
	next time.Time
}

// wait sets the next look at the clock.
func (c *watch) wait() {
	c.next = time.Now().Add(c.look)
	if last := c.began.Add(c.w.limits.Wall); c.next.After(last) {
		c.next = last
	}
	_ = c.w.out.SetReadDeadline(c.next) // fails only on a closed file, which the read tells
}

// overslept is by how much a look may be late on a busy machine. Beyond that this process
// was stopped itself, perhaps together with the worker, and the time does not count.
const overslept = time.Second

// Read implements io.Reader.
func (c *watch) Read(b []byte) (int, error) {
	for {
		n, err := c.w.out.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if late := time.Since(c.next); late > overslept {
			c.began = c.began.Add(late) // an answer may be there by now
			c.wait()
			continue
		}
		now, known := c.w.cpu()
		used := now - c.cpu
		switch over := time.Since(c.began) >= c.w.limits.Wall; {
		case used >= c.w.limits.CPU, over && (!known || used >= c.w.limits.CPU/hardly):
			return 0, errLate
		case over:
			return 0, errIdle
		case used >= tedious/2 && !c.w.receded:
			c.w.recede()
		}
		if c.w.receded {
			c.look = c.w.limits.CPU
		}
		c.wait()
	}
}

// hardly is which part of Limits.CPU a process must have computed within Limits.Wall for the text to
// be to blame: with a low priority beside busy processors it does not get all of it.
const hardly = 10

// tedious is after how long a worker is looked at: if it has computed for half of that,
// fifty times what an ordinary text takes, it makes room for others.
const tedious = 10 * time.Millisecond

// humble is a priority that leaves about nine tenths of a contended processor to others
// (setpriority(2)): little, but enough that an innocent text ends within Limits.Wall.
const humble = 10

// recede lets everything else on the machine come first: the sessions whose statements
// are known must not notice that somebody's keeps the parser busy. It names the process
// group, as the system would otherwise take one thread's word for the process's.
func (w *worker) recede() {
	w.receded = unix.Setpriority(unix.PRIO_PGRP, w.cmd.Process.Pid, humble) == nil
}

// cpu is the processor time the process has used. Where that cannot be told, Limits.Wall
// alone counts.
func (w *worker) cpu() (used time.Duration, known bool) {
	// The clock of another process, as clock_getcpuclockid(3) makes it.
	const ofProcess = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^w.cmd.Process.Pid<<3|ofProcess), &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}

// Fields of /proc/<pid>/statm (proc(5)): what is resident, and what is private and
// writable, which is what RLIMIT_DATA limits.
const (
	statmResident = 1
	statmData     = 5
)

// statm gives a field in bytes.
func statm(pid, field int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, fmt.Errorf("read the memory of a process: %w", err)
	}
	f := strings.Fields(string(b))
	if len(f) <= field {
		return 0, fmt.Errorf("read the memory of a process: statm is %q", b)
	}
	pages, err := strconv.ParseUint(f[field], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the memory of a process: %w", err)
	}
	return pages * uint64(os.Getpagesize()), nil
}

// resident is the memory the process holds, in bytes; zero if that cannot be told,
// as when it is gone.
func (w *worker) resident() uint64 {
	n, err := statm(w.cmd.Process.Pid, statmResident)
	if err != nil {
		return 0
	}
	return n
}

// end kills the process and waits for it. It reports whether it had ended before,
// by itself or by another's hand.
func (w *worker) end() (before bool) {
	select {
	case <-w.gone:
		before = true
	default:
		_ = w.cmd.Process.Kill() // fails only if it is gone
		<-w.gone
	}
	w.in.Close()
	w.out.Close()
	close(w.done)
	return before
}

// epitaph is how the process ended and the first it wrote. Valid after end.
func (w *worker) epitaph() string {
	return strings.TrimSpace(w.cmd.ProcessState.String() + ": " + w.stderr.String())
}

// killed reports whether somebody outside ended the process: whoever runs the
// machine, or a kernel without memory. Neither is the text's doing.
func (w *worker) killed() bool {
	s, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && s.Signaled() && (s.Signal() == syscall.SIGKILL || s.Signal() == syscall.SIGTERM)
}

// head keeps the first bytes written to it: a crash begins with its reason, and
// Go's runtime prints all stacks after it.
type head struct {
	mu sync.Mutex
	b  []byte
}

const maxHead = 512

// Write implements io.Writer.
func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.b = append(h.b, b[:min(len(b), maxHead-len(h.b))]...)
	return len(b), nil
}

// String gives what is kept.
func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.b)
}
