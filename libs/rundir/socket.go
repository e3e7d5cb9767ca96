package rundir

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Socket is a listening socket of the run directory. Somebody may remove its name; then it is
// made again (Claim.Keep), and connections made before go on. Accepting is for one
// goroutine.
type Socket struct {
	path string

	mu    sync.Mutex
	state listening // guarded by mu
}

type listening struct {
	socket *net.UnixListener
	closed bool
}

// newSocket binds under a temporary name and renames: whoever sees the final name
// can dial it, and a dead instance's socket is replaced in the same step.
func newSocket(path string) (*Socket, error) {
	state, err := openSocket(path)
	if err != nil {
		return nil, err
	}
	return &Socket{path: path, state: state}, nil
}

func openSocket(path string) (l listening, err error) {
	tmp := strings.TrimSuffix(path, ".sock") + ".new" // no longer than the final name
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return l, fmt.Errorf("remove leftover socket: %w", err)
	}
	if l.socket, err = net.ListenUnix("unix", &net.UnixAddr{Name: tmp, Net: "unix"}); err != nil {
		return l, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.socket.SetUnlinkOnClose(false)
	if err := os.Rename(tmp, path); err != nil {
		l.socket.Close()
		return l, fmt.Errorf("publish socket: %w", err)
	}
	return l, nil
}

// acceptAgain is when a connection is accepted again for which there was no room.
const acceptAgain = 50 * time.Millisecond

// AcceptUnix waits for a connection, and for a free descriptor for it: a process that has none
// still has its work, which its peers wait for. The error is net.ErrClosed after Close.
func (s *Socket) AcceptUnix() (*net.UnixConn, error) {
	for {
		s.mu.Lock()
		now := s.state
		s.mu.Unlock()
		c, err := now.socket.AcceptUnix()
		switch {
		case err == nil || now.closed:
			return c, err
		case errors.Is(err, net.ErrClosed): // another socket has taken its place, or it is closed for good
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
			time.Sleep(acceptAgain)
		default:
			return nil, err
		}
	}
}

// Accept implements net.Listener.
func (s *Socket) Accept() (net.Conn, error) { return s.AcceptUnix() }

// Addr implements net.Listener.
func (s *Socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close stops listening. The name stays.
func (s *Socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.closed = true
	return s.state.socket.Close()
}

// restore makes the socket again if its name is gone, and reports whether it was. One that has been
// taken over stays its new owner's.
func (s *Socket) restore() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.closed {
		return false, nil
	}
	if _, err := os.Lstat(s.path); !errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	next, err := openSocket(s.path)
	if err != nil {
		return true, err
	}
	before := s.state.socket
	s.state = next
	before.Close() // whoever accepts on it turns to the new one
	return true, nil
}
