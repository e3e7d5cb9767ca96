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
	// CPU is user and system time, also of descendants that have ended. The kernel
	// gives it in hundredths of a second.
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

// addTree fails only if the root cannot be read: descendants may end meanwhile, and
// then their parent has their time.
func (s *Sample) addTree(pid int) error {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return err
	}
	stat, err := proc.Stat()
	if err != nil {
		return err
	}
	s.CPU += time.Duration(int(stat.UTime)+int(stat.STime)+stat.CUTime+stat.CSTime) * tick
	s.Resident += int64(stat.ResidentMemory())
	s.Processes++
	for _, child := range children(pid) {
		_ = s.addTree(child)
	}
	return nil
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
			return Sample{CPU: time.Duration(stat.UTime+stat.STime) * tick, Resident: int64(stat.ResidentMemory()), Processes: 1}, nil
		}
	}
	return Sample{}, fmt.Errorf("read what process %d uses: %w", pid, err)
}
