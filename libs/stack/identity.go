package stack

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// identity is one process of this boot. The pid alone would not do: pids are used
// again.
type identity struct {
	PID int `json:"pid"`
	// Start is when the process started, in clock ticks after boot (proc(5), starttime).
	Start uint64 `json:"start"`
}

// identify gives the identity of the process that has a pid now. A zombie has none:
// it has ended.
func identify(pid int) (identity, bool) {
	stat, ok := statOf(pid)
	return identity{PID: pid, Start: stat.Starttime}, ok
}

func statOf(pid int) (procfs.ProcStat, bool) {
	if pid <= 1 {
		return procfs.ProcStat{}, false
	}
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, false
	}
	stat, err := proc.Stat()
	return stat, err == nil && stat.State != "Z" && stat.State != "X"
}

// stat gives what the kernel says of the process while it lives.
func (id identity) stat() (procfs.ProcStat, bool) {
	stat, ok := statOf(id.PID)
	return stat, ok && stat.Starttime == id.Start
}

func (id identity) alive() bool {
	_, ok := id.stat()
	return ok
}

// signal sends a signal to this process and no other: the process is looked at
// after the pidfd that the signal goes through has been opened.
func (id identity) signal(sig syscall.Signal) error {
	handle, err := os.FindProcess(id.PID)
	if err != nil {
		return fmt.Errorf("find process %d: %w", id.PID, err)
	}
	defer func() { _ = handle.Release() }()
	if !id.alive() {
		return os.ErrProcessDone
	}
	if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to process %d: %w", sig, id.PID, err)
	}
	return nil
}

// uptime is how long the process has been running.
func (id identity) uptime() (time.Duration, error) {
	stat, ok := id.stat()
	if !ok {
		return 0, os.ErrProcessDone
	}
	started, err := stat.StartTime() // seconds since 1970
	if err != nil {
		return 0, fmt.Errorf("read the start time of process %d: %w", id.PID, err)
	}
	return time.Since(time.Unix(0, int64(started*1e9))), nil
}

// bootID tells this boot from others, in which the same pid and start time may
// belong to any program.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}
