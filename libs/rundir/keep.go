package rundir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
)

// Keep makes the instance's lock, sockets and note again when somebody has removed their
// names, which a service that only looked at its own connections would never notice:
// nobody could find it any more. So it does with the secrets that this process goes by.
// It returns when ctx ends.
func (c *Claim) Keep(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(rescan)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		restored, err := c.restore()
		switch {
		case err != nil && err.Error() != said:
			said = err.Error()
			log.Error("the run directory is not what it was and cannot be mended", obs.KeyError, err)
		case err == nil && restored:
			said = ""
			log.Warn("names in the run directory were removed and are made again", obs.KeyPath, c.dir.path)
		}
	}
}

func (c *Claim) restore() (restored bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := os.MkdirAll(c.dir.path, 0o700); err != nil {
		return false, fmt.Errorf("create run_dir: %w", err)
	}
	// First, while there is the least time for others to make new ones. What keeps them away need
	// not keep away the rest.
	restored, unsaved := c.dir.restoreSecrets()
	defer func() { err = errors.Join(unsaved, err) }()
	path := c.dir.lock(c.service, c.id)
	if !sameFile(c.lock, path) {
		f, err := takeLock(path)
		if errors.Is(err, ErrTaken) {
			err = fmt.Errorf("the lock of %s.%s: %w", c.service, c.id, err)
		}
		if err != nil {
			return restored, err
		}
		c.lock.Close()
		c.lock, restored = f, true
	}
	if noted, err := c.restoreNoteLocked(); noted || err != nil {
		restored = true
		if err != nil {
			return restored, err
		}
	}
	for _, l := range c.listeners {
		again, err := l.restore()
		if err != nil {
			return restored, err
		}
		restored = restored || again
	}
	return restored, nil
}
