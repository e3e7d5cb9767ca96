package sockets

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// maxPath is the room for a path in sockaddr_un, without the final zero.
const maxPath = 107

// openUnix listens on folder/.s.PGSQL.port, open to every local user: who may log
// in is decided by password (PostgreSQL's unix_socket_permissions, 0777).
func (s *Set) openUnix(folder, port string) error {
	path, err := filepath.Abs(filepath.Join(folder, ".s.PGSQL."+port))
	if err != nil {
		return fmt.Errorf("resolve listen_unix %q: %w", folder, err)
	}
	if len(path) > maxPath {
		return fmt.Errorf("listen_unix %q is too long: the socket's path would have %d bytes and may have %d", folder, len(path), maxPath)
	}
	if s.lock, err = acquire(path, port); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the socket of a listener that is gone: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // the lock file's owner removes it
	s.lock.bound = true
	s.Listeners = append(s.Listeners, l)
	if err := os.Chmod(path, 0o777); err != nil {
		return fmt.Errorf("open %s to local users: %w", path, err)
	}
	return nil
}

// lockFile is PostgreSQL's <socket>.lock, which its servers and tools look at. It is
// also held with flock: a pid in a file that was left behind may be somebody
// else's by now.
type lockFile struct {
	f      *os.File
	socket string
	bound  bool
}

// acquire takes the lock of a socket or says who has it.
func acquire(socket, port string) (*lockFile, error) {
	path := socket + ".lock"
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open lock file: %w", err)
		}
		held, err := owned(f, socket)
		if err != nil || held != "" {
			f.Close()
			if err != nil {
				return nil, fmt.Errorf("lock %s: %w", path, err)
			}
			return nil, Taken("listen on %s: process %s has this socket; stop it or change listen_unix or the port in the configuration", socket, held)
		}
		if !still(f, path) { // its last owner removed it between open and lock
			f.Close()
			continue
		}
		l := &lockFile{f: f, socket: socket}
		if err := l.write(port); err != nil {
			return nil, errors.Join(err, l.release())
		}
		return l, nil
	}
}

// owned gives the pid of the process that has the lock, or takes it.
func owned(f *os.File, socket string) (pid string, err error) {
	var b [64]byte
	n, _ := f.ReadAt(b[:], 0) // an empty file is one that was just made
	first, _, _ := bytes.Cut(b[:n], []byte("\n"))
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return string(first), nil
	case err != nil:
		return "", err
	}
	// A PostgreSQL server does not use flock.
	if other, err := strconv.Atoi(string(first)); err == nil && other != os.Getpid() && !errors.Is(unix.Kill(other, 0), unix.ESRCH) {
		if c, err := net.DialTimeout("unix", socket, time.Second); err == nil {
			c.Close()
			return string(first), nil
		}
	}
	return "", nil
}

func still(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

// write fills in the lines of PostgreSQL's lock files: pid, directory, start time,
// port, socket directory.
func (l *lockFile) write(port string) error {
	folder := filepath.Dir(l.socket)
	text := fmt.Sprintf("%d\n%s\n%d\n%s\n%s\n", os.Getpid(), folder, time.Now().Unix(), port, folder)
	if err := l.f.Truncate(0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	if _, err := l.f.WriteAt([]byte(text), 0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	return nil
}

// release removes the socket, if it was bound, and the lock file, in this order: as long
// as the lock exists nobody else binds. Another listener that has the lock, too, keeps
// both: the lock belongs to all copies of its descriptor. So does whoever has taken the name since
// somebody removed this lock file.
func (l *lockFile) release() error {
	path := l.socket + ".lock"
	// Before the descriptor is closed: the inode number of a removed file that nobody has open
	// may be a new file's.
	ours := l.socket != "" && still(l.f, path)
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("close lock file: %w", err)
	}
	if !ours {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open lock file: %w", err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil // somebody has it
	}
	if !still(f, path) {
		return nil // its last owner has removed it between open and lock: what is there now is a new listener's
	}
	names := []string{path}
	if l.bound {
		names = []string{l.socket, path}
	}
	var errs []error
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
