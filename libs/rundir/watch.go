package rundir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/obs"
)

// Instance is one running service instance.
type Instance struct {
	Service string
	ID      string
	// Socket is the path of its main socket.
	Socket string
}

// List gives the running instances of a service that accept connections, by id.
// Sockets of dead instances are removed on the way.
func (d *Dir) List(service string) ([]Instance, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("list run_dir: %w", err)
	}
	var out []Instance
	for _, e := range entries {
		id, ok := split(e.Name(), service)
		if !ok {
			continue
		}
		if !d.alive(service, id) {
			d.bury(service, id)
			continue
		}
		out = append(out, Instance{Service: service, ID: id, Socket: d.Socket(service, id)})
	}
	slices.SortFunc(out, func(a, b Instance) int {
		if len(a.ID) != len(b.ID) { // 2 before 10
			return len(a.ID) - len(b.ID)
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out, nil
}

// Serving gives the running instances of every service that have a metrics and health
// socket, in no order, also of those that do not accept connections yet. What dead ones have
// left is removed on the way.
func (d *Dir) Serving() ([]Instance, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("list run_dir: %w", err)
	}
	var out []Instance
	for _, e := range entries {
		name, isHTTP := strings.CutSuffix(e.Name(), ".http.sock")
		service, id, _ := strings.Cut(name, ".")
		if !isHTTP || !servicePattern.MatchString(service) || !idPattern.MatchString(id) {
			continue
		}
		if !d.alive(service, id) {
			d.bury(service, id)
			continue
		}
		out = append(out, Instance{Service: service, ID: id, Socket: d.Socket(service, id)})
	}
	return out, nil
}

// Running gives the ids of a service's running instances, in no order, also of those that do not
// accept connections yet or any more.
func (d *Dir) Running(service string) (ids []string, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("list run_dir: %w", err)
	}
	for _, e := range entries {
		id, isLock := strings.CutSuffix(e.Name(), ".lock")
		id, isIts := strings.CutPrefix(id, service+".")
		if isLock && isIts && d.alive(service, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// alive reports whether a process holds the instance's lock. A shared lock is
// tried, so that two services that look at the same moment do not see each other.
func (d *Dir) alive(service, id string) bool {
	f, err := os.Open(d.lock(service, id))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) // short of descriptors, this process knows nothing
	}
	defer f.Close()
	return errors.Is(flock(f, unix.LOCK_SH), unix.EWOULDBLOCK)
}

// bury removes a dead instance's names, holding its lock meanwhile so that an
// instance that starts at this moment does not lose its new sockets.
func (d *Dir) bury(service, id string) {
	c, err := d.claim(service, id)
	if err != nil {
		return
	}
	_ = c.Close()
}

// rescan bounds how long a change goes unnoticed when its notification is lost,
// and how long a killed instance (whose files stay) counts as running.
const rescan = 500 * time.Millisecond

// Watch calls changed with the running instances of a service: as soon as they can be
// listed, then whenever the set is another one. It returns when ctx ends. Where the
// kernel has no notifications left to give (inotify(7), fs.inotify.max_user_instances)
// it says so in log and looks at the directory every now and then.
func (d *Dir) Watch(ctx context.Context, service string, log *slog.Logger, changed func([]Instance)) {
	var events <-chan fsnotify.Event
	var failures <-chan error
	again := func() {} // looks at the directory that has the name by now
	w, err := fsnotify.NewWatcher()
	if err == nil {
		defer w.Close()
		events, failures = w.Events, w.Errors
		again = func() { _ = w.Add(d.path) }
		err = w.Add(d.path)
	}
	if err != nil {
		log.Warn("services that come and go are noticed "+rescan.String()+" late: the kernel gives no notifications (is fs.inotify.max_user_instances reached?)",
			obs.KeyPeer, service, obs.KeyError, err)
	}
	tick := time.NewTicker(rescan)
	defer tick.Stop()
	var last []Instance
	listed, told := false, false
	for {
		now, err := d.List(service)
		switch {
		case err == nil:
			if !listed || !slices.Equal(now, last) {
				listed, last = true, now
				changed(now)
			}
		case !listed && !told:
			told = true
			log.Warn("cannot see which services run, trying again", obs.KeyPeer, service, obs.KeyError, err)
		}
		if err != nil {
			// The directory is gone for the moment, or there is no descriptor to read it. Who
			// was there before still runs and makes it again.
			again()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-events:
		case <-failures: // an overflowed queue: the list is read again anyway
		}
	}
}
