package epoch

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// at is a Counter whose clock stands still.
func at(t *testing.T, path string, now time.Time) *Counter {
	return New(path, func() time.Time { return now }, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

func TestNumbersGrowWhateverTheClockSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	first := at(t, path, noon).Next(0)
	if want := uint64(noon.UnixMicro()); first != want {
		t.Errorf("the first is %d, want the clock's %d", first, want)
	}
	earlier := at(t, path, noon.Add(-time.Hour)) // a successor
	if n := earlier.Next(0); n != first+1 {
		t.Errorf("%d after %d with the clock set back", n, first)
	}
	if n := earlier.Next(first + 100); n != first+101 {
		t.Errorf("%d is given to who knows of %d", n, first+100)
	}
	earlier.Note(first + 1000)
	earlier.Note(first)
	if n := at(t, path, noon).Next(0); n != first+1001 {
		t.Errorf("%d after %d was noted", n, first+1000)
	}
	later := noon.Add(time.Hour)
	if n := at(t, path, later).Next(0); n != uint64(later.UnixMicro()) {
		t.Errorf("%d at %d", n, later.UnixMicro())
	}
}

func TestEachNumberIsGivenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	var mu sync.Mutex
	given := make(map[uint64]bool)
	var wg sync.WaitGroup
	for range 8 {
		c := at(t, path, noon)
		wg.Go(func() {
			for range 50 {
				n := c.Next(0)
				mu.Lock()
				given[n] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(given) != 8*50 {
		t.Errorf("%d numbers of %d are different", len(given), 8*50)
	}
}

// Whatever has become of the file, there is a number above what is known and not below the
// clock's, and what cannot be mended is told.
func TestADamagedFileIsNoEnd(t *testing.T) {
	clock := uint64(noon.UnixMicro())
	for name, c := range map[string]struct {
		damage func(path string) error
		// told says that the log has a line; next is the number after that of the clock.
		told bool
		next uint64
	}{
		"removed":   {os.Remove, false, clock + 1},
		"emptied":   {func(path string) error { return os.Truncate(path, 0) }, false, clock + 1},
		"zeros":     {func(path string) error { return os.WriteFile(path, make([]byte, width), 0o600) }, false, clock + 1},
		"too large": {func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("9"), 100), 0o600) }, false, clock + 1},
		"a folder": {func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		}, true, clock},
	} {
		path := filepath.Join(t.TempDir(), FileName)
		var log bytes.Buffer
		counter := New(path, func() time.Time { return noon }, slog.New(slog.NewTextHandler(&log, nil)))
		counter.Next(0)
		if err := c.damage(path); err != nil {
			t.Fatal(err)
		}
		if n := counter.Next(0); n != clock {
			t.Errorf("%s: %d, want the clock's %d", name, n, clock)
		}
		if n := counter.Next(0); n != c.next {
			t.Errorf("%s: then %d, want %d", name, n, c.next)
		}
		if n := counter.Next(2 * clock); n != 2*clock+1 {
			t.Errorf("%s: %d is given to who knows of %d", name, n, 2*clock)
		}
		if told := strings.Contains(log.String(), "level=ERROR"); told != c.told {
			t.Errorf("%s: it is told: %v, want %v", name, told, c.told)
		}
	}
}
