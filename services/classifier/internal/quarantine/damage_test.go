package quarantine

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// openLogged is open with what the log says.
func openLogged(t *testing.T, path string, most int, c *clock) (*Quarantine, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	q, err := Open(Options{Path: path, Most: most, Keep: time.Hour, Now: c.Now, Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return q, log
}

const entries = 5

// fill adds entries to a quarantine.
func fill(t *testing.T, q *Quarantine, c *clock) {
	t.Helper()
	for i := range byte(entries) {
		c.pass(time.Second)
		add(t, q, i, fmt.Sprint("text ", i))
	}
}

// wantAll says that all of them are held, or those of these numbers.
func wantAll(t *testing.T, who string, q *Quarantine, but ...byte) {
	t.Helper()
	for i := range byte(entries) {
		if held := q.Holds([16]byte{i}, fmt.Sprint("text ", i)); held == slices.Contains(but, i) {
			t.Errorf("%s: text %d is held: %v", who, i, held)
		}
	}
}

// damage is something that may befall the file.
type damage struct {
	name string
	do   func(path string, b []byte) error
	// lost are the entries that who has seen nothing of it before cannot know.
	lost []byte
	// stuck says that nothing can be written in its place until it is removed.
	stuck bool
}

func write(path string, b []byte) error { return os.WriteFile(path, b, 0o600) }

// instead removes the file first.
func instead(do func(path string) error) func(string, []byte) error {
	return func(path string, _ []byte) error {
		if err := os.Remove(path); err != nil {
			return err
		}
		return do(path)
	}
}

var all = []byte{0, 1, 2, 3, 4}

func damages() []damage {
	at := func(b []byte, n int) int { return bytes.Index(b, fmt.Appendf(nil, `"key": "%02x`, n)) }
	return []damage{
		{"cut in the middle of an entry", func(path string, b []byte) error { return os.Truncate(path, int64(at(b, 3)+20)) }, []byte{3, 4}, false},
		{"a hole of zeros", func(path string, b []byte) error {
			clear(b[at(b, 1) : at(b, 2)-20])
			return write(path, b)
		}, []byte{1}, false},
		{"an entry without its end", func(path string, b []byte) error {
			i := bytes.Index(b, []byte(`"ends"`))
			return write(path, slices.Concat(b[:i], []byte(`"x"`), b[i+len(`"ends"`):]))
		}, []byte{0}, false},
		{"of another version", func(path string, b []byte) error {
			return write(path, bytes.Replace(b, []byte(`"v": 1`), []byte(`"v": 2`), 1))
		}, nil, false},
		{"zeros", func(path string, b []byte) error { return write(path, make([]byte, len(b))) }, all, false},
		{"emptied", func(path string, _ []byte) error { return os.Truncate(path, 0) }, all, false},
		{"huge", func(path string, _ []byte) error { return os.Truncate(path, maxFile+1) }, all, false},
		{"not to be read", instead(func(path string) error { return os.Symlink(path, path) }), all, false},
		{"a pipe", instead(func(path string) error { return unix.Mkfifo(path, 0o600) }), all, false},
		{"a folder", instead(func(path string) error { return os.Mkdir(path, 0o700) }), all, true},
	}
}

// Whatever befalls the file, classifiers that run know what they knew, one that starts knows
// what can be read, nothing is told as released, and the file is whole again soon, with a line
// in the log for each.
func TestADamagedFileCostsNothingThatIsKnown(t *testing.T) {
	for _, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			path, c := filepath.Join(t.TempDir(), FileName), newClock()
			one, log := openLogged(t, path, 10, c)
			two := open(t, path, 10, c)
			fill(t, one, c)
			wantAll(t, "the second", two)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.do(path, b); err != nil {
				t.Fatal(err)
			}
			later := time.Now().Add(time.Second) // file times are coarse
			if err := os.Chtimes(path, later, later); err != nil && !errors.Is(err, unix.ELOOP) {
				t.Fatal(err)
			}

			late, lateLog := openLogged(t, path, 10, c)
			wantAll(t, "one that starts", late, d.lost...)
			wantAll(t, "the first", one)
			for _, l := range []*bytes.Buffer{log, lateLog} {
				if n := strings.Count(l.String(), "the quarantine is damaged"); n != 1 {
					t.Errorf("it is told %d times:\n%s", n, l)
				}
			}
			one.save()
			if d.stuck {
				one.save()
				if n := strings.Count(log.String(), "trying again"); n != 1 || !strings.Contains(log.String(), "remove it") {
					t.Errorf("what is to be done is told %d times:\n%s", n, log)
				}
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				wantAll(t, "the first, without what was in the way", one)
				one.save()
			} else if n := strings.Count(log.String(), "has been written anew"); n != 1 {
				t.Errorf("the mending is told %d times:\n%s", n, log)
			}
			for range 2 { // until all agree
				for _, q := range []*Quarantine{one, two, late} {
					q.save()
				}
			}
			for who, q := range map[string]*Quarantine{"the first": one, "the second": two, "one that started": late, "a successor": open(t, path, 10, c)} {
				wantAll(t, who+", after all", q)
				if n := q.Len(); n != entries {
					t.Errorf("%s has %d entries", who, n)
				}
				if freed := q.freed(); len(freed) != 0 {
					t.Errorf("%s releases %v", who, freed)
				}
			}
			before, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			one.save()
			if after, err := os.Stat(path); err != nil || !same(before, after) {
				t.Errorf("a whole file is written again: %v", err)
			}
			if info, err := os.Lstat(path + DamagedSuffix); err == nil && d.name == "zeros" && info.Size() != int64(len(b)) {
				t.Errorf("%d bytes are kept of the damaged file", info.Size())
			} else if err != nil && len(d.lost) > 0 && len(d.lost) < entries {
				t.Errorf("the damaged file is not kept: %v", err)
			}
			// To clear it is to remove it, as before.
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			for _, q := range []*Quarantine{one, two, late} {
				wantAll(t, "after it was cleared", q, all...)
				q.save()
			}
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("written again after it was cleared: %v", err)
			}
		})
	}
}

// Whoever mends the file may know less than one who has not seen that it was damaged.
func TestWhoHasNotSeenTheDamageBringsBackWhatIsMissing(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), FileName), newClock()
	one := open(t, path, 10, c)
	fill(t, one, c)
	if err := write(path, nil); err != nil {
		t.Fatal(err)
	}
	late := open(t, path, 10, c)
	late.save()
	add(t, late, 100, "new")
	wantAll(t, "the first", one)
	want(t, one, 100, "new", true)
	one.save()
	wantAll(t, "the one that mended", late)
	if n := late.Len(); n != entries+1 {
		t.Errorf("%d entries", n)
	}
}

// On a full disk the file stays as it was; what is new holds where it was found and is in the
// file as soon as there is room.
func TestAFullDiskCostsNothing(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), FileName), newClock()
	one, log := openLogged(t, path, 10, c)
	two := open(t, path, 10, c)
	fill(t, one, c)
	full := func() {
		if err := os.Symlink("/dev/full", path+".new"); err != nil {
			t.Fatal(err)
		}
	}
	full()
	if err := one.Add("app", [16]byte{100}, "new", "crash"); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Fatalf("added to a full disk: %v", err)
	}
	for range 2 {
		full()
		one.save()
	}
	if n := strings.Count(log.String(), "see that the file can be written and that there is space"); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, log)
	}
	want(t, one, 100, "new", true)
	want(t, two, 100, "new", false)
	wantAll(t, "the second", two)
	one.save() // there is room
	want(t, two, 100, "new", true)
	wantAll(t, "the second", two)
	if n := one.Len(); n != entries+1 {
		t.Errorf("%d entries", n)
	}
}
