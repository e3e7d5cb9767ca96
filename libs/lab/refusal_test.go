package lab_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/lab"
)

// occupyPort takes a port until the test ends. The one before it is free, and neither is
// one that the kernel gives to outgoing connections, which come and go.
func occupyPort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 30000 + rand.IntN(2000)
		before, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port-1))
		if err != nil {
			continue
		}
		must(t, before.Close())
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			t.Cleanup(func() { l.Close() })
			return port
		}
	}
	t.Fatal("none of a hundred pairs of ports is free")
	return 0
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	taken := occupyPort(t)
	occupied := t.TempDir()
	must(t, os.WriteFile(filepath.Join(occupied, "notes.txt"), nil, 0o600))
	script := t.TempDir() // says it is an old server
	for _, program := range []string{"postgres", "initdb"} {
		must(t, os.WriteFile(filepath.Join(script, program), []byte("#!/bin/sh\necho 'postgres (PostgreSQL) 14.9'\n"), 0o755))
	}
	must(t, os.Chmod(filepath.Dir(script), 0o755))

	tests := []struct {
		name string
		opts lab.Options
		want string
	}{
		{"primary's port taken", lab.Options{BasePort: taken}, fmt.Sprintf("port %d is taken by another process", taken)},
		{"replica's port taken", lab.Options{BasePort: taken - 1, Replicas: 1}, fmt.Sprintf("port %d is taken by another process", taken)},
		{"missing programs", lab.Options{BinDir: t.TempDir()}, `no PostgreSQL program "postgres"`},
		{"old programs", lab.Options{BinDir: script}, "PostgreSQL 14 in " + script + " is too old"},
		{"folder in use", lab.Options{Dir: occupied}, "holds other files (notes.txt)"},
		{"folder is a file", lab.Options{Dir: filepath.Join(occupied, "notes.txt")}, "is not a folder"},
		{"too many replicas", lab.Options{Replicas: 10}, "a lab has 0 to 9 replicas"},
		{"impossible port", lab.Options{BasePort: 65535, Replicas: 1}, "port 65535 is out of range"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.opts.Dir == "" {
				test.opts.Dir = filepath.Join(t.TempDir(), "lab")
				defer func() {
					if _, err := os.Stat(test.opts.Dir); !os.IsNotExist(err) {
						t.Errorf("the refused lab left its folder: %v", err)
					}
				}()
			}
			c, err := lab.Start(t.Context(), test.opts)
			if err == nil {
				_ = c.Close(context.Background())
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, test.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(occupied, "notes.txt")); err != nil {
		t.Errorf("a foreign file is gone: %v", err)
	}
}

// A start that fails half-way, here because its time is over, leaves nothing.
func TestInterruptedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	dir := filepath.Join(tmp, "lab")
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		// The state is written before the first program runs.
		for ctx.Err() == nil {
			if _, err := lab.Open(dir); err == nil {
				cancel()
			}
		}
	}()
	c, err := lab.Start(ctx, lab.Options{Dir: dir, Replicas: 1, FastUnsafe: true})
	cancel()
	<-stop
	if err == nil {
		_ = c.Close(context.Background())
		t.Fatal("it started")
	}
	if entries, err := os.ReadDir(tmp); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

const ownerDir = "LAB_TEST_OWNER_DIR"

// TestOwnerKilled kills a process that owns a lab, as a test runner does on a timeout.
func TestOwnerKilled(t *testing.T) {
	if dir := os.Getenv(ownerDir); dir != "" {
		_, err := lab.Start(t.Context(), lab.Options{Dir: dir, Replicas: 1, FastUnsafe: true})
		fmt.Println("started:", err)
		select {} // until killed
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "lab")
	owner := osexec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOwnerKilled$")
	owner.Env = append(os.Environ(), ownerDir+"="+dir)
	out, err := owner.StdoutPipe()
	must(t, err)
	must(t, owner.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "started:") {
	}
	c, err := lab.Open(dir)
	must(t, err)
	servers := pids(c)
	if lines.Text() != "started: <nil>" || servers[0] == 0 || servers[1] == 0 {
		t.Fatalf("the owner said %q, servers %v", lines.Text(), servers)
	}
	if closed, err := lab.CloseAbandoned(t.Context(), dir); closed || err != nil {
		t.Fatalf("a lab with a living owner was closed: %v, %v", closed, err)
	}
	must(t, owner.Process.Kill())
	_ = owner.Wait()
	t.Cleanup(func() { _, _ = lab.CloseAbandoned(context.Background(), dir) })
	patience, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for _, m := range c.Members() {
		for _, running := m.Running(); running; _, running = m.Running() {
			select {
			case <-tick.C:
			case <-patience.Done():
				t.Fatalf("%s outlives its owner", m.Name)
			}
		}
	}
	if closed, err := lab.CloseAbandoned(t.Context(), dir); !closed || err != nil {
		t.Fatalf("close the abandoned lab: %v, %v", closed, err)
	}
	for _, path := range []string{dir, filepath.Dir(c.Primary().SocketDir())} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}
