package usage

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// Busy is the time that the machine's processors have worked, all together, since it
// was started.
func Busy() (time.Duration, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("read the machine's use: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0, fmt.Errorf("read the machine's use: %w", err)
	}
	c := stat.CPUTotal
	return time.Duration((c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal) * float64(time.Second)), nil
}

// Load is the load average of the last minute.
func Load() (float64, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("read the load: %w", err)
	}
	avg, err := fs.LoadAvg()
	if err != nil {
		return 0, fmt.Errorf("read the load: %w", err)
	}
	return avg.Load1, nil
}
