// Package labtest gives a Go test a PostgreSQL cluster of its own: temporary folder,
// free ports, any number of them side by side. Its servers end with the test or, should the
// test process be killed, with the process.
package labtest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/lab"
)

const (
	folderPrefix = "pgpilot-labtest-"

	// Generous: a loaded machine must not fail a test that would pass.
	startTimeout = 3 * time.Minute
	closeTimeout = time.Minute

	// A folder this young may belong to a process that has not locked it yet.
	sweepAge = time.Minute
)

// Start runs a primary with the given number of replicas until the test and its
// subtests have finished. fsync is off. A machine without PostgreSQL fails the test with a
// sentence that says what to install.
func Start(t testing.TB, replicas int) *lab.Cluster {
	t.Helper()
	sweep(t)
	dir, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		t.Fatalf("create the lab's folder: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := lab.Start(ctx, lab.Options{
		Dir: dir, Replicas: replicas, FastUnsafe: true, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		_ = os.Remove(dir) // still there if the lab was refused before it was claimed
		t.Fatalf("start a lab: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close the lab: %v", err)
		}
	})
	return c
}

// FreeAddress gives an address of 127.0.0.1 that nobody has, and that nobody else who asks for one is
// given before the test has ended. Its port is none that the kernel gives to outgoing connections.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, release, err := lab.ReservePort()
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	t.Cleanup(release)
	return "127.0.0.1:" + strconv.Itoa(port)
}

// sweep removes what killed test processes left behind: folders whose lock is free.
func sweep(t testing.TB) {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	if err != nil {
		t.Fatalf("look for abandoned labs: %v", err)
	}
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), closeTimeout)
		// What can not be removed, another user's for example, is none of this test's business.
		if closed, err := lab.CloseAbandoned(ctx, dir); closed && err == nil {
			t.Logf("removed the lab a killed test left in %s", dir)
		}
		cancel()
	}
}
