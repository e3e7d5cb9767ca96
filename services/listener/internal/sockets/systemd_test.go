package sockets

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/config"
)

// envActivated makes the test binary the process that systemd would start.
const envActivated = "PGPILOT_TEST_ACTIVATED"

func TestMain(m *testing.M) {
	if os.Getenv(envActivated) != "" {
		os.Exit(activated())
	}
	os.Exit(m.Run())
}

// activated opens the sockets, says what came of it, and serves one client of each.
func activated() int {
	s, err := Open(context.Background(), "192.0.2.1:1", "/nonexistent", config.TCP{}) // fails unless sockets were passed
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(s.Addresses())
	for _, l := range s.Listeners {
		c, err := l.Accept()
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Fprint(c, "served")
		c.Close()
	}
	if err := s.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// activate starts a process as systemd does, with LISTEN_PID naming the process
// itself, and gives its output.
func activate(t *testing.T, count string, files ...*os.File) (io.Reader, *exec.Cmd) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), envActivated+"=1", "LISTEN_FDS="+count)
	cmd.ExtraFiles = files
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return out, cmd
}

func TestSocketsOfSystemdComeFirst(t *testing.T) {
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	path := filepath.Join(t.TempDir(), ".s.PGSQL.6432")
	local, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	var files []*os.File
	for _, l := range []interface{ File() (*os.File, error) }{tcp, local} {
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}

	out, cmd := activate(t, "2", files...)
	lines := bufio.NewReader(out)
	want := tcp.Addr().String() + ", " + path + "\n"
	if got, err := lines.ReadString('\n'); err != nil || got != want {
		t.Fatalf("listens on %q, %v; want %q", got, err, want)
	}
	for _, a := range []net.Addr{tcp.Addr(), local.Addr()} {
		if got := talk(t, a); got != "served" {
			t.Errorf("%s: got %q", a, got)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	// They are systemd's: the next listener's clients can connect already.
	for _, a := range []net.Addr{tcp.Addr(), local.Addr()} {
		c, err := net.Dial(a.Network(), a.String())
		if err != nil {
			t.Errorf("after the listener's end: %v", err)
			continue
		}
		c.Close()
	}
}

func talk(t *testing.T, a net.Addr) string {
	t.Helper()
	c, err := net.Dial(a.Network(), a.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSocketsOfSystemdAreRefusedInOneSentence(t *testing.T) {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	datagram, err := udp.File()
	if err != nil {
		t.Fatal(err)
	}
	defer datagram.Close()
	for _, c := range []struct {
		count, want string
		files       []*os.File
	}{
		{"two", `LISTEN_FDS is "two"`, nil},
		{"1", "use only ListenStream= and Accept=no in the .socket unit", []*os.File{datagram}},
		{"0", "none of its addresses is one of this machine", nil}, // the configuration's
	} {
		out, cmd := activate(t, c.count, c.files...)
		said, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(string(said), c.want) {
			t.Errorf("LISTEN_FDS=%s: %v, said %q; want %q", c.count, err, said, c.want)
		}
	}
}

// Variables that were meant for another process change nothing.
func TestSocketsOfAnotherProcess(t *testing.T) {
	t.Setenv("LISTEN_PID", "1")
	t.Setenv("LISTEN_FDS", "1")
	s := open(t, "127.0.0.1:0", "")
	if !strings.HasPrefix(s.Addresses(), "127.0.0.1:") {
		t.Fatalf("listens on %s", s.Addresses())
	}
}
