package quarantine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// clock is one that the test moves.
type clock struct{ now atomic.Pointer[time.Time] }

func newClock() *clock {
	c := &clock{}
	t := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c.now.Store(&t)
	return c
}

func (c *clock) Now() time.Time { return *c.now.Load() }

func (c *clock) pass(d time.Duration) {
	t := c.Now().Add(d)
	c.now.Store(&t)
}

func open(t *testing.T, path string, most int, c *clock) *Quarantine {
	t.Helper()
	q, err := Open(Options{Path: path, Most: most, Keep: time.Hour, Now: c.Now, Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func add(t *testing.T, q *Quarantine, key byte, text string) {
	t.Helper()
	if err := q.Add("app", sqltoken.Key{key}, text, "crash"); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, q *Quarantine, key byte, text string, held bool) {
	t.Helper()
	if got := q.Holds(sqltoken.Key{key}, text); got != held {
		t.Fatalf("holds key %d, text %q: %v, want %v", key, text, got, held)
	}
}

func TestATextIsHeldByKeyOrByItself(t *testing.T) {
	q := open(t, filepath.Join(t.TempDir(), FileName), 10, newClock())
	want(t, q, 1, "a", false)
	add(t, q, 1, "a")
	want(t, q, 1, "a", true)
	want(t, q, 1, "b", true)
	want(t, q, 2, "a", true)
	want(t, q, 2, "b", false)
}

func TestSiblingsAndSuccessorsKnowIt(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), FileName), newClock()
	one, two := open(t, path, 10, c), open(t, path, 10, c)
	want(t, two, 1, "a", false)
	add(t, one, 1, "a")
	want(t, two, 1, "a", true)
	add(t, two, 2, "b")
	want(t, one, 2, "b", true)
	want(t, open(t, path, 10, c), 1, "a", true)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `"cause": "crash"`) {
		t.Errorf("the file does not tell people the cause:\n%s", b)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestEntriesEnd(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), FileName), newClock()
	q := open(t, path, 10, c)
	add(t, q, 1, "a")
	c.pass(59 * time.Minute)
	want(t, q, 1, "a", true)
	c.pass(time.Minute)
	want(t, q, 1, "a", false)
	if n := q.Len(); n != 0 {
		t.Errorf("%d entries", n)
	}
	add(t, q, 2, "b")
	if d, err := load(path); err != nil || len(d.Entries) != 1 {
		t.Errorf("the file keeps what has ended: %v, %v", d.Entries, err)
	}
}

func TestTheFileIsBounded(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), FileName), newClock()
	q := open(t, path, 3, c)
	for i := range byte(5) {
		add(t, q, i, fmt.Sprint(i))
	}
	for i := range byte(5) {
		want(t, q, i, fmt.Sprint(i), i >= 2)
	}
}

func TestRemovingTheFileClearsIt(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), FileName), newClock()
	q := open(t, path, 10, c)
	add(t, q, 1, "a")
	ctx, cancel := context.WithCancel(t.Context())
	freed := make(chan string, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { q.Watch(ctx, func(database string) { freed <- database }) })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want(t, q, 1, "a", false)
	if database := <-freed; database != "app" {
		t.Fatalf("freed %q", database)
	}
}

// What routers were told of a text stays as true when newer ones push its entry out: nothing
// is flushed, however many there are.
func TestWhatIsPushedOutIsNotReleased(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), FileName), newClock()
	q := open(t, path, 3, c)
	for i := range byte(10) {
		add(t, q, i, fmt.Sprint(i))
		if freed := q.freed(); len(freed) != 0 {
			t.Fatalf("%v is released with entry %d", freed, i)
		}
	}
	if n := len(q.state.watched); n != 3 {
		t.Errorf("%d entries are watched", n)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if freed := q.freed(); !freed["app"] {
		t.Errorf("%v is released by who removes the file", freed)
	}
}

// Texts that came one after the other end one after the other. All are told of, but not each
// on its own.
func TestEndsAreToldTogether(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), FileName), newClock()
	q := open(t, path, 1000, c)
	const seconds = 150
	for i := range byte(seconds) {
		add(t, q, i, fmt.Sprint(i))
		c.pass(time.Second)
	}
	c.pass(time.Hour - seconds*time.Second)
	told := 0
	for range seconds {
		if q.freed()["app"] {
			told++
		}
		c.pass(time.Second)
	}
	if told == 0 || told > 4 {
		t.Errorf("told %d times in %d seconds", told, seconds)
	}
	c.pass(endsEvery)
	if !q.freed()["app"] {
		t.Error("the last are not told of")
	}
	if len(q.state.watched) != 0 || len(q.state.toTell) != 0 {
		t.Errorf("%d entries are watched, %v is to be told", len(q.state.watched), q.state.toTell)
	}
}

func TestABrokenFileIsReplaced(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), FileName), newClock()
	for _, content := range []string{"", "{", `{"v":2,"entries":[]}`, `[]`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		q := open(t, path, 10, c)
		want(t, q, 1, "a", false)
		add(t, q, 1, "a")
		want(t, q, 1, "a", true)
	}
}

func TestWhatCannotBeWrittenHoldsHere(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), "no such folder", FileName), newClock()
	q := open(t, path, 10, c)
	if err := q.Add("app", sqltoken.Key{1}, "a", "hang"); err == nil {
		t.Fatal("written without a folder")
	}
	want(t, q, 1, "a", true)
	want(t, open(t, path, 10, c), 1, "a", false)
}

func TestManyWritersLoseNothing(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), FileName), newClock()
	var wg sync.WaitGroup
	for g := range byte(4) {
		q := open(t, path, 1000, c)
		wg.Go(func() {
			for i := range byte(25) {
				if err := q.Add("app", sqltoken.Key{g, i}, fmt.Sprint(g, i), "crash"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := open(t, path, 1000, c).Len(); n != 100 {
		t.Fatalf("%d entries of 100", n)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"v":1,"entries":[{"key":"00","text_sha256":"00","database":"d","cause":"crash","at":"2026-01-02T03:04:05Z","ends":"2026-01-03T03:04:05Z"}]}`))
	f.Add([]byte(`{"v":1,"entries":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), FileName)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := load(path)
		for _, e := range d.Entries {
			if !e.whole() {
				t.Fatalf("%q holds the entry %+v", b, e)
			}
		}
		now := time.Now()
		mended := false
		if err := change(path, now, func(e []Entry) []Entry { return e }, func(error) { mended = true }); err != nil {
			t.Fatalf("%q is read but not written: %v", b, err)
		}
		again, after := load(path)
		if after != nil || len(again.Entries) != len(d.Entries) || mended != (err != nil) || mended && !again.Repaired.Equal(now) {
			t.Fatalf("%q: %d entries, %v, then %d, %v, mended: %v", b, len(d.Entries), err, len(again.Entries), after, mended)
		}
	})
}
