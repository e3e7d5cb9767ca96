package sockets

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/pgpilot/pgpilot/libs/config"
)

// Somebody has removed the lock file of a listener that runs, as those do who tidy up /tmp, and
// another server has taken the name since: its socket is not the listener's to remove.
func TestASuccessorsSocketStays(t *testing.T) {
	for name, succeed := range map[string]func(t *testing.T, folder, socket string){
		"another listener": func(t *testing.T, folder, _ string) { open(t, "", folder) },
		"a PostgreSQL server": func(t *testing.T, _, socket string) { // which does not use flock
			if err := os.WriteFile(socket+".lock", fmt.Appendf(nil, "%d\n/var/lib/postgresql\n", os.Getppid()), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(socket); err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			first, err := Open(t.Context(), "", folder, config.TCP{})
			if err != nil {
				t.Fatal(err)
			}
			socket := filepath.Join(folder, ".s.PGSQL.6432")
			if err := os.Remove(socket + ".lock"); err != nil {
				t.Fatal(err)
			}
			succeed(t, folder, socket)
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(socket + ".lock"); err != nil {
				t.Errorf("the successor's lock file: %v", err)
			}
			c, err := net.Dial("unix", socket)
			if err != nil {
				t.Fatalf("the successor's socket: %v", err)
			}
			c.Close()
		})
	}
}

// The successor takes the lock between the moment in which a listener gives it up and that in
// which it looks whether anybody has it.
func TestASuccessorThatIsQuick(t *testing.T) {
	folder := t.TempDir()
	first, err := Open(t.Context(), "", folder, config.TCP{})
	if err != nil {
		t.Fatal(err)
	}
	socket := first.Listeners[0].Addr().String()
	if err := first.lock.f.Close(); err != nil { // as release does at first
		t.Fatal(err)
	}
	open(t, "", folder)
	first.lock.f, err = os.Open(socket + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{socket, socket + ".lock"} {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("what is the successor's: %v", err)
		}
	}
}
