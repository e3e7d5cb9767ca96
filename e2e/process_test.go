package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/stack"
)

// descriptors counts the process's open descriptors.
func descriptors(t testing.TB, p *stack.Process) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Pid()))
	if err != nil {
		t.Fatalf("list the descriptors of %s: %v", p.Name(), err)
	}
	return len(entries)
}

// peakMemory gives the highest resident memory since forgetPeak, in bytes.
func peakMemory(t testing.TB, p *stack.Process) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		t.Fatalf("read the memory of %s: %v", p.Name(), err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				t.Fatalf("read the memory of %s: %v", p.Name(), err)
			}
			return kb << 10
		}
	}
	t.Fatalf("the status of %s does not tell its peak memory", p.Name())
	return 0
}

// forgetPeak sets the highest memory use back to the present one (proc(5), clear_refs).
func forgetPeak(t testing.TB, p *stack.Process) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.Pid()), []byte("5"), 0); err != nil {
		t.Fatalf("reset the peak memory of %s: %v", p.Name(), err)
	}
}
