package rundir

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Claim is this process's hold on one service instance's names. Close gives it
// up and removes its sockets.
type Claim struct {
	dir     *Dir
	service string
	id      string

	mu        sync.Mutex
	lock      *os.File  // guarded by mu
	listeners []*Socket // guarded by mu
	note      string    // guarded by mu; empty: none
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
		f, err := takeLock(path)
		switch {
		case err == nil:
			return &Claim{dir: d, service: service, id: id, lock: f}, nil
		case !errors.Is(err, ErrTaken):
			return nil, err
		case time.Now().After(deadline):
			return nil, fmt.Errorf("claim %s.%s in %s: %w", service, id, d.path, ErrTaken)
		}
		time.Sleep(lookTime / 20)
	}
}

// takeLock makes the lock file, if it must, and holds it. It says who does. The error is ErrTaken
// while somebody else holds it.
func takeLock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open lock: %w", err)
		}
		if err := flock(f, unix.LOCK_EX); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, ErrTaken
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !sameFile(f, path) { // its last owner removed the name between open and lock
			f.Close()
			continue
		}
		if err := recordPid(f); err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
}

func recordPid(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	return nil
}

// Service gives the service's name.
func (c *Claim) Service() string { return c.service }

// ID gives the instance's id.
func (c *Claim) ID() string { return c.id }

// Listen opens the instance's main socket.
func (c *Claim) Listen() (*Socket, error) {
	return c.listen(c.dir.Socket(c.service, c.id))
}

// ListenHTTP opens the instance's metrics and health socket.
func (c *Claim) ListenHTTP() (*Socket, error) {
	return c.listen(c.dir.HTTPSocket(c.service, c.id))
}

// ListenAs opens a socket under another name of the directory, such as bus.sock.
// The last instance that listens under a shared name has it.
func (c *Claim) ListenAs(name string) (*Socket, error) {
	return c.listen(c.dir.Join(name))
}

func (c *Claim) listen(path string) (*Socket, error) {
	l, err := newSocket(path)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, l)
	return l, nil
}

// Close removes the instance's sockets and note and gives up the lock. Sockets opened
// with ListenAs stay: a sibling may have taken the name over.
func (c *Claim) Close() error {
	for _, p := range []string{
		c.dir.Socket(c.service, c.id), c.dir.HTTPSocket(c.service, c.id), c.dir.note(c.service, c.id), c.dir.lock(c.service, c.id),
	} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("release %s.%s: %w", c.service, c.id, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
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
