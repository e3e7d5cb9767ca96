package tcp

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/config"
)

func option(t *testing.T, c net.Conn, level, name int) int {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	v := -1
	if err := raw.Control(func(fd uintptr) { v, err = unix.GetsockoptInt(int(fd), level, name) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// connect gives connections made with the settings in every way.
func connect(t *testing.T, s config.TCP) map[string]net.Conn {
	t.Helper()
	open := func(l net.Listener, err error) (dialled, accepted net.Conn) {
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, err := Dialer(s).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		a, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(); a.Close() })
		return c, a
	}
	conns := map[string]net.Conn{}
	conns["dialled"], conns["accepted"] = open(ListenConfig(s).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		other, err = Listener(other, s)
	}
	_, conns["accepted from a socket of somebody else"] = open(other, err)
	return conns
}

func TestSettingsAreOnTheSockets(t *testing.T) {
	system := connect(t, config.TCP{})
	for side, c := range connect(t, config.TCP{KeepalivesIdle: config.Duration(77 * time.Second), KeepalivesInterval: config.Duration(11 * time.Second), KeepalivesCount: 5, UserTimeout: config.Duration(12345 * time.Millisecond)}) {
		for name, want := range map[int]int{unix.TCP_KEEPIDLE: 77, unix.TCP_KEEPINTVL: 11, unix.TCP_KEEPCNT: 5, unix.TCP_USER_TIMEOUT: 12345} {
			if got := option(t, c, unix.IPPROTO_TCP, name); got != want {
				t.Errorf("%s: option %d is %d, want %d", side, name, got, want)
			}
		}
		if option(t, c, unix.SOL_SOCKET, unix.SO_KEEPALIVE) != 1 || option(t, system[side], unix.SOL_SOCKET, unix.SO_KEEPALIVE) != 1 {
			t.Errorf("%s: keepalive is off", side)
		}
		if got := option(t, system[side], unix.IPPROTO_TCP, unix.TCP_KEEPIDLE); got < 100 {
			t.Errorf("%s: zero gives %d seconds, which is hardly the system's", side, got)
		}
	}
}

func TestUnixSocketsAreLeftAlone(t *testing.T) {
	s := config.TCP{UserTimeout: config.Duration(time.Second)}
	path := filepath.Join(t.TempDir(), "s")
	l, err := ListenConfig(s).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dialer(s).DialContext(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
