package rundir

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Claim is this process's hold on one service instance's names. Close gives it
// up and removes its sockets.
type Claim struct {
	dir     *Dir
	service string
	id      string
	lock    *os.File
}

// ErrTaken reports that a running process holds the instance's lock.
var ErrTaken = errors.New("instance is already running")

// Claim takes the names of one service instance. An empty id takes the first
// free number from 1. The lock is held until Close or the end of the process.
func (d *Dir) Claim(service, id string) (*Claim, error) {
	if id != "" {
		if !idPattern.MatchString(id) {
			return nil, fmt.Errorf("instance id %q: use 1 to %d letters, digits, _ or -", id, maxID)
		}
		return d.claim(service, id)
	}
	for n := 1; n <= 1000; n++ {
		c, err := d.claim(service, strconv.Itoa(n))
		if !errors.Is(err, ErrTaken) {
			return c, err
		}
	}
	return nil, fmt.Errorf("claim a %s instance: ids 1 to 1000 are all running in %s", service, d.path)
}

// lookTime covers the moment for which another process holds a lock only to see
// whether it is free (alive, bury).
const lookTime = 100 * time.Millisecond

func (d *Dir) claim(service, id string) (*Claim, error) {
	path := d.lock(service, id)
	deadline := time.Now().Add(lookTime)
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open lock: %w", err)
		}
		if err := flock(f, unix.LOCK_EX); err != nil {
			f.Close()
			if !errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fmt.Errorf("lock %s: %w", path, err)
			}
			if time.Now().After(deadline) {
				return nil, fmt.Errorf("claim %s.%s in %s: %w", service, id, d.path, ErrTaken)
			}
			time.Sleep(lookTime / 20)
			continue
		}
		if !sameFile(f, path) { // its last owner removed the name between open and lock
			f.Close()
			continue
		}
		c := &Claim{dir: d, service: service, id: id, lock: f}
		if err := c.recordPid(); err != nil {
			c.Close()
			return nil, err
		}
		return c, nil
	}
}

func (c *Claim) recordPid() error {
	if err := c.lock.Truncate(0); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	if _, err := c.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	return nil
}

// Service gives the service's name.
func (c *Claim) Service() string { return c.service }

// ID gives the instance's id.
func (c *Claim) ID() string { return c.id }

// Listen opens the instance's main socket.
func (c *Claim) Listen() (*net.UnixListener, error) {
	return c.dir.listen(c.dir.Socket(c.service, c.id))
}

// ListenHTTP opens the instance's metrics and health socket.
func (c *Claim) ListenHTTP() (*net.UnixListener, error) {
	return c.dir.listen(c.dir.HTTPSocket(c.service, c.id))
}

// ListenAs opens a socket under another name of the directory, such as bus.sock.
// The last instance that listens under a shared name has it.
func (c *Claim) ListenAs(name string) (*net.UnixListener, error) {
	return c.dir.listen(c.dir.Join(name))
}

// listen binds under a temporary name and renames: whoever sees the final name
// can dial it, and a dead instance's socket is replaced in the same step.
func (d *Dir) listen(path string) (*net.UnixListener, error) {
	tmp := strings.TrimSuffix(path, ".sock") + ".new" // no longer than the final name
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove leftover socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: tmp, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Rename(tmp, path); err != nil {
		l.Close()
		return nil, fmt.Errorf("publish socket: %w", err)
	}
	return l, nil
}

// Close removes the instance's sockets and gives up the lock. Sockets opened
// with ListenAs stay: a sibling may have taken the name over.
func (c *Claim) Close() error {
	for _, p := range []string{c.dir.Socket(c.service, c.id), c.dir.HTTPSocket(c.service, c.id), c.dir.lock(c.service, c.id)} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("release %s.%s: %w", c.service, c.id, err)
		}
	}
	return c.lock.Close()
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}
