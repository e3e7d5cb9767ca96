package staleness

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Clock is this machine's CLOCK_BOOTTIME, as this process sees it.
type Clock struct {
	// Name tells whether two readings compare: only those of clocks of one name do.
	Name string
}

// OpenClock finds out the clock's name.
func OpenClock() (Clock, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Clock{}, fmt.Errorf("find out which boot of the machine this is: %w", err)
	}
	name := strings.TrimSpace(string(boot))
	// Time namespaces shift the clock; where there are none, there is one clock.
	if space, err := os.Readlink("/proc/self/ns/time"); err == nil {
		name += "/" + space
	}
	return Clock{Name: name}, nil
}

// Now is the time since the machine was started.
func (c Clock) Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("read CLOCK_BOOTTIME: %v", err)) // since Linux 2.6.39 it is there
	}
	return time.Duration(ts.Nano())
}
