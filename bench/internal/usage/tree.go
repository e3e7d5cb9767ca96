package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Sample is what some processes have used until a moment.
type Sample struct {
	// CPU is user and system time, also of descendants that have ended.
	CPU time.Duration
	// Resident is the sum of the resident sets, in bytes. Pages that processes share
	// count for each.
	Resident int64
	// Processes is how many there are.
	Processes int
}

// tick is the kernel's unit of processor time, the same on all of Linux (USER_HZ).
const tick = time.Second / 100

// OfTrees gives the sum for the processes with these pids and all their descendants.
func OfTrees(pids ...int) (Sample, error) {
	var s Sample
	for _, pid := range pids {
		if err := s.addTree(pid); err != nil {
			return Sample{}, fmt.Errorf("read what process %d uses: %w", pid, err)
		}
	}
	return s, nil
}

// readings bounds how often a process whose children end just then is read again.
const readings = 100

// addTree fails only if the root cannot be read: descendants may end meanwhile, and
// then their parent has their time. If it got that only after it was looked at, it is looked
// at again, or the time would be missing.
func (s *Sample) addTree(pid int) error {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return err
	}
	before, err := proc.Stat()
	if err != nil {
		return err
	}
	for reading := 1; ; reading++ {
		var below Sample
		for _, child := range children(pid) {
			_ = below.addTree(child)
		}
		after, err := proc.Stat()
		if err != nil {
			return err
		}
		if reading < readings && (after.CUTime != before.CUTime || after.CSTime != before.CSTime) {
			before = after
			continue
		}
		s.CPU += below.CPU + used(pid, after) + time.Duration(after.CUTime+after.CSTime)*tick
		s.Resident += below.Resident + int64(after.ResidentMemory())
		s.Processes += below.Processes + 1
		return nil
	}
}

// used gives the processor time of a process without its descendants. Its stat has that in
// ticks, rounded down: of a short measurement by many processes nothing would be left. The scheduler
// counts nanoseconds, but only of threads that still run.
func used(pid int, stat procfs.ProcStat) time.Duration {
	ticks := time.Duration(stat.UTime+stat.STime) * tick
	threads, err := procfs.AllThreads(pid)
	if err != nil {
		return ticks // it has ended
	}
	var running time.Duration
	for _, thread := range threads {
		s, err := thread.Schedstat()
		if err != nil {
			continue // the thread has ended, or the kernel does not count
		}
		running += time.Duration(s.RunningNanoseconds)
	}
	return max(ticks, running)
}

// children lists the processes that any thread of pid has started.
func children(pid int) []int {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil // the pattern is right
	}
	var pids []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// OfProcess is what one process has used, without its descendants.
func OfProcess(pid int) (Sample, error) {
	proc, err := procfs.NewProc(pid)
	if err == nil {
		var stat procfs.ProcStat
		if stat, err = proc.Stat(); err == nil {
			return Sample{CPU: used(pid, stat), Resident: int64(stat.ResidentMemory()), Processes: 1}, nil
		}
	}
	return Sample{}, fmt.Errorf("read what process %d uses: %w", pid, err)
}
