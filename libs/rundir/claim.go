package rundir

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
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
	lock      *os.File     // guarded by mu
	listeners []*Socket    // guarded by mu
	note      string       // guarded by mu; empty: none
	log       *slog.Logger // guarded by mu
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
			return &Claim{dir: d, service: service, id: id, lock: f, log: slog.New(slog.DiscardHandler)}, nil
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

// LogTo has what goes wrong with sockets that are opened from then on told there. Without
// it nothing is.
func (c *Claim) LogTo(log *slog.Logger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = log
}

// Listen opens the instance's main socket.
func (c *Claim) Listen() (*Socket, error) {
	return c.listenOwn(c.dir.Socket(c.service, c.id))
}

// ListenHTTP opens the instance's metrics and health socket.
func (c *Claim) ListenHTTP() (*Socket, error) {
	return c.listenOwn(c.dir.HTTPSocket(c.service, c.id))
}

func (c *Claim) listenOwn(path string) (*Socket, error) {
	return c.listen(path, strings.TrimSuffix(path, ".sock")+temporary)
}

// ListenAs opens a socket under another name of the directory, such as bus.sock.
// The last instance that listens under a shared name has it.
func (c *Claim) ListenAs(name string) (*Socket, error) {
	// Of two that open the name at once neither may have the other's temporary one.
	tmp := c.service + "." + c.id + "." + strings.TrimSuffix(name, ".sock") + temporary
	if len(tmp) > longestName {
		return nil, fmt.Errorf("listen on %s: the name is too long by %d bytes", name, len(tmp)-longestName)
	}
	return c.listen(c.dir.Join(name), c.dir.Join(tmp))
}

func (c *Claim) listen(path, tmp string) (*Socket, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, err := newSocket(path, tmp, c.log)
	if err != nil {
		return nil, err
	}
	c.listeners = append(c.listeners, l)
	return l, nil
}

// Close removes the instance's sockets and note and gives up the lock. Sockets opened
// with ListenAs stay: a sibling may have taken the name over. Nothing is removed if another
// instance has the names by now, which somebody who removes a lock can bring about.
func (c *Claim) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if path := c.dir.lock(c.service, c.id); !sameFile(c.lock, path) {
		f, err := takeLock(path)
		if errors.Is(err, ErrTaken) || errors.Is(err, os.ErrNotExist) { // there is no directory any more
			return c.lock.Close()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("release %s.%s: %w", c.service, c.id, err), c.lock.Close())
		}
		c.lock.Close()
		c.lock = f
	}
	err := c.removeNamesLocked()
	if err != nil {
		err = fmt.Errorf("release %s.%s: %w", c.service, c.id, err)
	}
	return errors.Join(err, c.lock.Close())
}

// removeNamesLocked removes all that the instance has in the directory, its lock last: until
// then nobody else has any of it.
func (c *Claim) removeNamesLocked() error {
	paths := []string{c.dir.Socket(c.service, c.id), c.dir.HTTPSocket(c.service, c.id), c.dir.note(c.service, c.id)}
	entries, err := os.ReadDir(c.dir.path)
	if err != nil {
		return fmt.Errorf("list run_dir: %w", err)
	}
	for _, e := range entries { // in the making when it was killed
		if strings.HasPrefix(e.Name(), c.service+"."+c.id+".") && strings.HasSuffix(e.Name(), temporary) {
			paths = append(paths, c.dir.Join(e.Name()))
		}
	}
	for _, p := range append(paths, c.dir.lock(c.service, c.id)) {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
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
