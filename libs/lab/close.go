package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Close stops every server in immediate mode and removes every file of the cluster. Closing a cluster that
// is gone already is not an error; a Close that failed may be repeated.
func (c *Cluster) Close(ctx context.Context) error {
	c.mu.Lock()
	claim := c.claim
	c.mu.Unlock()
	owner := claim != nil
	if !owner {
		var err error
		if claim, err = claimFolder(ctx, c.dir); err != nil {
			return err
		}
	}
	if err := c.removeAll(ctx, claim, owner); err != nil {
		if !owner {
			claim.release()
		}
		return err
	}
	c.mu.Lock()
	c.claim = nil
	c.mu.Unlock()
	c.ports.release()
	return claim.remove()
}

// removeAll leaves only what belongs to the claim.
func (c *Cluster) removeAll(ctx context.Context, claim *folder, owner bool) error {
	st, err := readState(c.dir)
	if errors.Is(err, ErrNoCluster) {
		return nil
	}
	if err != nil {
		return err
	}
	claim.created = st.Created
	now := c
	if !owner {
		// Another process may have added members, or moved a lost work folder.
		now = attach(c.dir, st, c.account, c.bin, true, c.log)
	}
	if err := now.each(func(m *Member) error { return m.Kill(ctx) }, now.members...); err != nil {
		return err
	}
	for _, m := range now.members {
		err = errors.Join(err, os.RemoveAll(m.dir()), os.RemoveAll(m.dir()+unfinished))
	}
	err = errors.Join(err, os.RemoveAll(now.socketDir()), os.RemoveAll(now.backupDir()))
	if now.work != now.dir {
		err = errors.Join(err, os.RemoveAll(now.work))
	}
	if err != nil {
		return fmt.Errorf("remove the lab's files: %w", err)
	}
	return nil
}

// CloseAbandoned closes the cluster in dir, which must be a lab's folder, if no process owns it, for
// example because the one that did was killed. It reports false, without waiting, if one does. A detached
// cluster is owned by nobody.
func CloseAbandoned(ctx context.Context, dir string) (bool, error) {
	lock, err := tryLock(filepath.Join(dir, lockFile))
	if lock == nil {
		return false, err
	}
	claim := &folder{dir: dir, lock: lock}
	c, err := Open(dir)
	if err == nil {
		err = c.removeAll(ctx, claim, false)
	} else if errors.Is(err, ErrNoCluster) {
		err = nil
	}
	if err != nil {
		claim.release()
		return false, err
	}
	return true, claim.remove()
}
