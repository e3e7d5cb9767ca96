package lab

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A second process that waits for the lock of a lab being removed must not end up with a
// lock on the deleted file, excluding nobody.
func TestClaimOutlivesRemoval(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	first, err := claimFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := claimFolder(ended, dir); err == nil || !strings.Contains(err.Error(), "another process holds the lab") {
		t.Fatalf("a second claim got %v", err)
	}
	second := make(chan *folder)
	go func() {
		claim, err := claimFolder(t.Context(), dir)
		if err != nil {
			t.Error(err)
		}
		second <- claim
	}()
	if err := first.remove(); err != nil {
		t.Fatal(err)
	}
	claim := <-second
	if claim == nil {
		t.FailNow()
	}
	if lock, err := tryLock(filepath.Join(dir, lockFile)); lock != nil || err != nil {
		t.Fatalf("the lock is free (%v) though claimed", err)
	}
	if err := claim.remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("the lab's folder is left: %v", err)
	}
}

func TestRemoveKeepsForeignFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	claim, err := claimFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := claim.refuseForeign(); err != nil {
		t.Fatalf("an empty folder was refused: %v", err)
	}
	foreign := filepath.Join(dir, "thesis.txt")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := claim.refuseForeign(); err == nil {
		t.Fatal("a folder with other files was accepted")
	}
	if err := claim.remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Fatalf("a foreign file is gone: %v", err)
	}
}

func TestReservePortsDisjoint(t *testing.T) {
	seen := map[int]bool{}
	for range 5 {
		reserved, ports, err := reservePorts(3)
		if err != nil {
			t.Fatal(err)
		}
		defer reserved.release()
		for _, port := range ports {
			if seen[port] {
				t.Fatalf("port %d was given twice", port)
			}
			seen[port] = true
		}
	}
}
