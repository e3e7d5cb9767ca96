package sockets

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/handoff"
)

// Clients that have connected before the first listener closes its sockets, and those
// that do afterwards, are all accepted by the one that shares them; the Unix socket stays
// until that one closes, too.
func TestSharedSocketsLoseNobody(t *testing.T) {
	folder := t.TempDir()
	first, err := Open(t.Context(), "127.0.0.1:0", folder, config.TCP{})
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kinds, fds, err := first.Share(metrics)
	if err != nil {
		t.Fatal(err)
	}
	second, page, err := Adopt(kinds, fds, config.TCP{})
	if err != nil {
		t.Fatal(err)
	}
	if page == nil || page.Addr().String() != metrics.Addr().String() {
		t.Errorf("the page for metrics is at %v", page)
	}
	dial := func(l net.Listener) net.Conn {
		c, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	var clients []net.Conn
	for _, l := range second.Listeners {
		clients = append(clients, dial(l))
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	metrics.Close()
	for _, l := range append(second.Listeners, page) {
		clients = append(clients, dial(l))
	}
	for _, l := range []net.Listener{second.Listeners[0], second.Listeners[1], second.Listeners[0], second.Listeners[1], page} {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	for i, c := range clients {
		if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("client %d: %d, %v", i, n, err)
		}
	}
	page.Close()
	socket := second.Listeners[1].Addr().String()
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{socket, socket + ".lock"} {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", filepath.Base(name), err)
		}
	}
}

// Of two that share, the one that came second may end first.
func TestTheUnixSocketIsTheLastOnes(t *testing.T) {
	first, err := Open(t.Context(), "127.0.0.1:0", t.TempDir(), config.TCP{})
	if err != nil {
		t.Fatal(err)
	}
	kinds, fds, err := first.Share(nil)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := Adopt(kinds, fds, config.TCP{})
	if err != nil {
		t.Fatal(err)
	}
	socket := first.Listeners[1].Addr().String()
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatalf("the first one's socket: %v", err)
	}
	c.Close()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{socket, socket + ".lock"} {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", filepath.Base(name), err)
		}
	}
}

// What cannot be used is closed.
func TestAdoptRefuses(t *testing.T) {
	for name, kinds := range map[string][]string{"an unknown kind": {"udp"}, "a lock alone": {kindLock}, "too few": {kindTCP, kindTCP}} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			fd, err := handoff.Dup(l.(*net.TCPListener))
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := Adopt(kinds, []int{fd}, config.TCP{}); err == nil {
				t.Fatal("it was taken")
			}
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
				t.Error("the descriptor is still open")
			}
		})
	}
}
