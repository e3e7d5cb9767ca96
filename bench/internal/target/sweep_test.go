package target

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/lab"
)

// What a killed run has left is removed; what somebody uses, or has only just made, is
// not.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * sweepAge)
	folder := func(name string, when time.Time) string {
		path := filepath.Join(dir, folderPrefix+name)
		if err := os.MkdirAll(filepath.Join(path, "strict-1"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
		return path
	}
	used := folder("used", old)
	cluster, err := lab.Start(t.Context(), lab.Options{Dir: filepath.Join(used, labFolder), FastUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // if the test has not come so far; closing twice is no error
		if err := cluster.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chtimes(used, old, old); err != nil {
		t.Fatal(err)
	}
	young, abandoned := folder("young", time.Now()), folder("abandoned", old)
	sweep(t.Context(), dir, slog.New(slog.DiscardHandler))
	for path, want := range map[string]bool{used: true, young: true, abandoned: false} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: is there: %v", filepath.Base(path), err == nil)
		}
	}
	if err := cluster.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(used, old, old); err != nil {
		t.Fatal(err)
	}
	sweep(t.Context(), dir, slog.New(slog.DiscardHandler))
	if _, err := os.Stat(used); err == nil {
		t.Error("nobody uses it any more, but it is still there")
	}
}
