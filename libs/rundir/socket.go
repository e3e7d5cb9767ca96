package rundir

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
)

// Socket is a listening socket of the run directory. Somebody may remove its name; then it is
// made again (Claim.Keep), and connections made before go on. Accepting is for one
// goroutine.
type Socket struct {
	path, tmp string
	log       *slog.Logger
	// told is when a failure to accept was told last; the accepting goroutine's.
	told time.Time

	mu    sync.Mutex
	state listening // guarded by mu
}

type listening struct {
	socket *net.UnixListener
	// file is the socket's own, whatever name it has.
	file os.FileInfo
	// removed says that the name has been given up, closed that there is nobody to accept.
	removed, closed bool
}

// newSocket binds under a temporary name and renames: whoever sees the final name
// can dial it, and a dead instance's socket is replaced in the same step.
// The temporary name is no longer than the longest of the package and only this instance's.
func newSocket(path, tmp string, log *slog.Logger) (*Socket, error) {
	state, err := openSocket(path, tmp)
	if err != nil {
		return nil, err
	}
	return &Socket{path: path, tmp: tmp, log: log, state: state}, nil
}

func openSocket(path, tmp string) (l listening, err error) {
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return l, fmt.Errorf("remove leftover socket: %w", err)
	}
	if l.socket, err = net.ListenUnix("unix", &net.UnixAddr{Name: tmp, Net: "unix"}); err != nil {
		return l, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.socket.SetUnlinkOnClose(false)
	if l.file, err = os.Lstat(tmp); err != nil {
		l.socket.Close()
		return l, fmt.Errorf("publish socket: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		l.socket.Close()
		return l, fmt.Errorf("publish socket: %w", err)
	}
	return l, nil
}

const (
	// acceptAgain is when a connection is accepted again for which there was no room.
	acceptAgain = 50 * time.Millisecond
	// acceptTold is how long passes between two lines of the log that say so.
	acceptTold = 10 * time.Second
)

// AcceptUnix waits for a connection, and for what it takes to have it, such as a free
// descriptor: a process that can take none still has its work, which its peers wait for.
// The only error is net.ErrClosed, after Close.
func (s *Socket) AcceptUnix() (*net.UnixConn, error) {
	for {
		s.mu.Lock()
		now := s.state
		s.mu.Unlock()
		c, err := now.socket.AcceptUnix()
		switch {
		case err == nil:
			return c, nil
		case !errors.Is(err, net.ErrClosed):
			if at := time.Now(); at.Sub(s.told) >= acceptTold {
				s.told = at
				s.log.Error("a connection waits because it cannot be accepted, trying again", obs.KeyPath, s.path, obs.KeyError, err)
			}
			time.Sleep(acceptAgain)
		case now.closed:
			return nil, net.ErrClosed
		}
		// Another socket has taken its place, or it is closed for good.
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

// Remove removes the name, unless it leads to another socket by now: nobody finds this one
// any more, which accepts until Close. It is not made again.
func (s *Socket) Remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.removed = true
	at, err := os.Lstat(s.path)
	if err == nil && os.SameFile(at, s.state.file) {
		err = os.Remove(s.path)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove socket: %w", err)
	}
	return nil
}

// restore makes the socket again if its name is gone, and reports whether it was. One that has been
// taken over stays its new owner's.
func (s *Socket) restore() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.closed || s.state.removed {
		return false, nil
	}
	if _, err := os.Lstat(s.path); !errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	next, err := openSocket(s.path, s.tmp)
	if err != nil {
		return true, err
	}
	before := s.state.socket
	s.state = next
	before.Close() // whoever accepts on it turns to the new one
	return true, nil
}
