package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func (c *Cluster) backupDir() string { return filepath.Join(c.work, "backup") }

// TakeBackup keeps a base backup of the primary as it is now, in place of the one kept before, for
// [Cluster.Rebuild]. A replica rebuilt from it needs the primary's WAL from here on: raise wal_keep_size if
// much is to be written meanwhile.
func (c *Cluster) TakeBackup(ctx context.Context) error {
	if err := os.RemoveAll(c.backupDir()); err != nil {
		return fmt.Errorf("remove the backup kept before: %w", err)
	}
	if err := c.account.mkdir(c.backupDir()); err != nil {
		return err
	}
	return copyBase(ctx, c.Primary(), c.backupDir(), c.account)
}

// Rebuild makes member i a replica of the present primary, whatever it was before: its server is killed and
// its data replaced by the backup of [Cluster.TakeBackup], which is used up, or without one by a new base
// backup. It returns when the server accepts connections. Those see what the backup has until more has been
// replayed.
func (c *Cluster) Rebuild(ctx context.Context, i int) error {
	m, err := c.Member(i)
	if err != nil {
		return err
	}
	primary := c.Primary()
	if m == primary {
		return fmt.Errorf("%s is the primary: only others can be rebuilt from it", m.Name)
	}
	if err := m.Kill(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(m.dataDir()); err != nil {
		return fmt.Errorf("remove the data of %s: %w", m.Name, err)
	}
	conn, err := primary.control(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	if err := ensureSlot(ctx, conn, m); err != nil {
		return err
	}
	switch err := os.Rename(c.backupDir(), m.dataDir()); {
	case errors.Is(err, os.ErrNotExist):
		if err := c.account.mkdir(m.dataDir()); err != nil {
			return err
		}
		if err := copyBase(ctx, primary, m.dataDir(), c.account); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("give the backup to %s: %w", m.Name, err)
	}
	if err := c.account.writeFile(filepath.Join(m.dataDir(), "standby.signal"), ""); err != nil {
		return err
	}
	return m.Start(ctx)
}
