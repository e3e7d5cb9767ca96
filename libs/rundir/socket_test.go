package rundir

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
)

// lines is a log that passes on each line.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

func (l lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l lines) expect(t *testing.T, part string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case line := <-l:
			if strings.Contains(line, part) {
				return
			}
		case <-deadline:
			t.Fatalf("nothing is said of %q", part)
		}
	}
}

func listenTo(t *testing.T, log *slog.Logger) (*Claim, *Socket) {
	t.Helper()
	c, err := open(t).Claim(Router, "1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.LogTo(log)
	s, err := c.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return c, s
}

// accepting accepts until an error.
func accepting(s *Socket) (accepted chan struct{}, ended chan error) {
	accepted, ended = make(chan struct{}, 8), make(chan error, 1)
	go func() {
		for {
			u, err := s.AcceptUnix()
			if err != nil {
				ended <- err
				return
			}
			u.Close()
			accepted <- struct{}{}
		}
	}()
	return accepted, ended
}

// Whatever keeps a process from accepting, its work goes on, and it accepts when it can.
func TestAcceptOutlivesErrors(t *testing.T) {
	log := make(lines, 64)
	c, s := listenTo(t, log.logger())
	raw, err := s.state.socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	deaf, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(deaf)
	// With a socket that does not listen in its place, accept says EINVAL.
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Dup3(deaf, int(fd), unix.O_CLOEXEC) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	accepted, ended := accepting(s)
	log.expect(t, "cannot be accepted")
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	if restored, err := c.restore(); !restored || err != nil {
		t.Fatalf("restored %v, %v", restored, err)
	}
	conn, err := net.Dial("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	select {
	case <-accepted:
	case err := <-ended:
		t.Fatalf("it accepts no more: %v", err)
	}
	s.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// An error that passes leaves the socket in use, and nobody who waits at it is lost. What
// accept says is made by what is in the socket's place meanwhile: the kernel's own reasons
// (ECONNABORTED, ENFILE) cannot be had from it at will, and none is told from another.
func TestAcceptGoesOnWithTheSameSocket(t *testing.T) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, c := range map[string]struct {
		says  string
		other func() (int, error)
	}{
		"a socket that does not listen": {"invalid argument", func() (int, error) { return unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0) }},
		"one without connections":       {"operation not supported", func() (int, error) { return unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) }},
		"no socket":                     {"socket operation on non-socket", func() (int, error) { return unix.Dup(int(file.Fd())) }},
	} {
		t.Run(name, func(t *testing.T) {
			log := make(lines, 64)
			_, s := listenTo(t, log.logger())
			other, err := c.other()
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(other)
			raw, err := s.state.socket.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			put := func(there int) (failed error) {
				if err := raw.Control(func(fd uintptr) { failed = unix.Dup3(there, int(fd), unix.O_CLOEXEC) }); err != nil {
					return err
				}
				return failed
			}
			kept := -1
			if err := raw.Control(func(fd uintptr) { kept, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil || kept < 0 {
				t.Fatal(err)
			}
			defer unix.Close(kept)
			if err := put(other); err != nil {
				t.Fatal(err)
			}
			accepted, ended := accepting(s)
			log.expect(t, c.says)
			conn, err := net.Dial("unix", s.path)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := put(kept); err != nil {
				t.Fatal(err)
			}
			select {
			case <-accepted:
			case err := <-ended:
				t.Fatalf("it accepts no more: %v", err)
			}
			s.Close()
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// A socket that cannot accept can be closed.
func TestCloseEndsATroubledAccept(t *testing.T) {
	log := make(lines, 64)
	_, s := listenTo(t, log.logger())
	conn, err := net.Dial("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	handofftest.Exhaust(t, 0) // until the test ends
	_, ended := accepting(s)
	log.expect(t, "too many open files")
	s.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A name that is given up stays away, and one that leads elsewhere by now stays there.
func TestRemoveIsOfOnesOwn(t *testing.T) {
	c, s := listenTo(t, discard)
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	if again, err := c.restore(); again || err != nil {
		t.Errorf("restored %v, %v", again, err)
	}
	if _, err := os.Stat(s.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the name is there: %v", err)
	}
	next, err := c.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.path); err != nil {
		t.Errorf("another socket's name was removed: %v", err)
	}
}
