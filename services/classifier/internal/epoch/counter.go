package epoch

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/obs"
)

// FileName of the highest number in the run directory.
const FileName = "classifier.generation"

// width is the length of the file: each number is written over the last one, and has as
// many digits as any.
const width = len("18446744073709551615\n")

// Counter gives numbers. It is safe for concurrent use, by several processes too.
type Counter struct {
	path string
	now  func() time.Time
	log  *slog.Logger
}

// New gives a Counter whose file has that path; it need not be there. now is the clock,
// time.Now outside tests.
func New(path string, now func() time.Time, log *slog.Logger) *Counter {
	return &Counter{path: path, now: now, log: log}
}

// Next gives a number above known, and above all that were given or noted before. If that
// cannot be looked up the clock decides, and the log says so.
func (c *Counter) Next(known uint64) uint64 {
	number := max(known+1, uint64(c.now().UnixMicro()))
	return c.raise(func(highest uint64) uint64 { return max(number, highest+1) })
}

// Note takes note of a number that somebody else has given.
func (c *Counter) Note(number uint64) {
	c.raise(func(highest uint64) uint64 { return max(number, highest) })
}

func (c *Counter) raise(to func(highest uint64) uint64) uint64 {
	number, err := raise(c.path, to)
	if err != nil {
		c.log.Error("the number of the last flush cannot be kept; see that the file can be written, until then the clock must not be set back",
			obs.KeyPath, c.path, obs.KeyError, err)
	}
	return number
}

// raise replaces the number in a file by what to makes of it, which nobody else does at the
// same time. A file that has none counts as zero.
func raise(path string, to func(highest uint64) uint64) (uint64, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return to(0), err
	}
	defer f.Close() // and with it the lock
	if err := lock(f); err != nil {
		return to(0), fmt.Errorf("lock %s: %w", path, err)
	}
	b := make([]byte, width)
	n, _ := f.ReadAt(b, 0)                                                      // what cannot be read has no number
	highest, err := strconv.ParseUint(strings.TrimSpace(string(b[:n])), 10, 64) // leading zeros and all
	if err != nil {
		highest = 0
	}
	number := to(highest)
	if number == highest {
		return number, nil
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%0*d\n", width-1, number), 0)
	return number, err
}

// patience is how long another process may have the lock: one that is stopped must not hold
// up everybody's flushes.
const patience = time.Second

func lock(f *os.File) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			return err
		}
	}
}
