package sockets

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/config"
)

func open(t *testing.T, address, folder string) *Set {
	t.Helper()
	s, err := Open(t.Context(), address, folder, config.TCP{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestLocalhostIsEveryLoopbackAddress(t *testing.T) {
	want, err := net.LookupHost("localhost")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, "localhost:0", "")
	_, port, _ := net.SplitHostPort(s.Listeners[0].Addr().String())
	for _, host := range want {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			continue // this machine lacks the family
		}
		l.Close()
		c, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		c.Close()
	}
}

func TestAddressesAreRefusedInOneSentence(t *testing.T) {
	taken := open(t, "127.0.0.1:0", "")
	for _, c := range []struct{ address, folder, want string }{
		{"", "", "nothing to listen on: set listen to host:port or listen_unix to a folder"},
		{"6432", "", "want host:port, such as localhost:6432 or *:6432"},
		{taken.Addresses(), "", "the port is taken; stop the program that has it or change listen in the configuration"},
		{"192.0.2.1:0", "", "none of its addresses is one of this machine"},
		{"127.0.0.1:0", "/nonexistent", "no such file or directory"},
		{"127.0.0.1:0", "/" + strings.Repeat("x", 100), "is too long"},
	} {
		if s, err := Open(t.Context(), c.address, c.folder, config.TCP{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %q: got %v, %v; want %q", c.address, c.folder, s, err, c.want)
		}
	}
}

func TestUnixSocketIsPostgreSQLs(t *testing.T) {
	folder := t.TempDir()
	s := open(t, "", folder)
	path := filepath.Join(folder, ".s.PGSQL.6432")
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o777 {
		t.Fatalf("socket %v, %v; want mode 0777", st, err)
	}
	lock, err := os.ReadFile(path + ".lock")
	if err != nil || !strings.HasPrefix(string(lock), fmt.Sprintf("%d\n%s\n", os.Getpid(), folder)) {
		t.Fatalf("lock file %q, %v", lock, err)
	}
	if _, err := Open(t.Context(), "", folder, config.TCP{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d has this socket", os.Getpid())) {
		t.Fatalf("a second owner: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the second owner removed the first one's socket: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
}

// What a killed listener leaves behind is taken over, even when its pid belongs to
// somebody else by now; a PostgreSQL server, which does not use flock, is not.
func TestLeftoverIsTakenOverAndAServerIsNot(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, ".s.PGSQL.6432")
	alive := os.Getppid()
	if err := os.WriteFile(path+".lock", fmt.Appendf(nil, "%d\n/var/lib/postgresql\n", alive), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	server.SetUnlinkOnClose(false)
	if _, err := Open(t.Context(), "", folder, config.TCP{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d has this socket", alive)) {
		t.Fatalf("a server's socket: %v", err)
	}
	server.Close() // the socket's file stays, as after SIGKILL
	s := open(t, "", folder)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
