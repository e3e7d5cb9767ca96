package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
)

// unfinished ends the name of a member's folder while it is being built.
const unfinished = ".new"

// bringUp builds and starts the current primary, then all others at the same time,
// except for former primaries: a second primary is only started by name.
func (c *Cluster) bringUp(ctx context.Context) error {
	if err := c.account.mkdir(c.socketDir()); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	primary := c.Primary()
	if !primary.exists() {
		if err := c.buildPrimary(ctx, primary); err != nil {
			return err
		}
	}
	if err := primary.Start(ctx); err != nil {
		return err
	}
	if err := c.provision(ctx, primary); err != nil {
		return err
	}
	var others []*Member
	for _, m := range c.members {
		if m != primary && !m.IsFormer() {
			others = append(others, m)
		}
	}
	return c.each(func(m *Member) error {
		if m.exists() {
			return m.Start(ctx)
		}
		if err := c.buildReplica(ctx, m, primary); err != nil {
			return err
		}
		if err := m.Start(ctx); err != nil {
			return err
		}
		// It accepts connections before it streams; nobody wants a new replica that lags.
		flushed, err := primary.flushLSN(ctx)
		if err != nil {
			return err
		}
		return m.waitReplayed(ctx, flushed)
	}, others...)
}

// build fills a member's folder under another name, so that a folder with its own name is always complete.
func (c *Cluster) build(m *Member, fill func(dir string) error) error {
	dir := m.dir() + unfinished
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the half-built folder of %s: %w", m.Name, err)
	}
	if err := c.account.mkdir(dir); err != nil {
		return err
	}
	if err := fill(dir); err != nil {
		return err
	}
	if err := os.Rename(dir, m.dir()); err != nil {
		return fmt.Errorf("finish the folder of %s: %w", m.Name, err)
	}
	return nil
}

func (c *Cluster) buildPrimary(ctx context.Context, m *Member) error {
	return c.build(m, func(dir string) error {
		password := filepath.Join(dir, "password")
		if err := c.account.writeFile(password, c.superPassword); err != nil {
			return err
		}
		data := filepath.Join(dir, "data")
		cmd := c.account.command(ctx, c.bin.path("initdb"), "-D", data, "-U", superUser, "--pwfile", password,
			"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("initdb of %s: %w: %s", m.Name, err, strings.TrimSpace(string(out)))
		}
		if err := os.Remove(password); err != nil {
			return fmt.Errorf("remove the password file of initdb: %w", err)
		}
		if err := c.account.writeFile(filepath.Join(data, "pg_hba.conf"), hbaConf); err != nil {
			return err
		}
		main := filepath.Join(data, "postgresql.conf")
		defaults, err := os.ReadFile(main)
		if err != nil {
			return fmt.Errorf("read what initdb wrote: %w", err)
		}
		return c.account.writeFile(main, string(defaults)+"\ninclude '"+labConf+"'\n")
	})
}

func (c *Cluster) buildReplica(ctx context.Context, m, primary *Member) error {
	return c.build(m, func(dir string) error {
		data := filepath.Join(dir, "data")
		if err := c.account.mkdir(data); err != nil {
			return err
		}
		if err := copyBase(ctx, primary, data, c.account); err != nil {
			return err
		}
		return c.account.writeFile(filepath.Join(data, "standby.signal"), "")
	})
}

// provision makes the role, its database and the replicas' slots where they are missing, so that
// a start that was interrupted can simply be repeated.
func (c *Cluster) provision(ctx context.Context, primary *Member) error {
	conn, err := primary.control(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	steps := []struct{ exists, create string }{
		{"SELECT FROM pg_roles WHERE rolname = '" + User + "'",
			"CREATE ROLE " + User + " LOGIN REPLICATION IN ROLE pg_monitor PASSWORD '" + Password + "'"},
		{"SELECT FROM pg_database WHERE datname = '" + Database + "'",
			"CREATE DATABASE " + Database + " OWNER " + User},
	}
	for _, step := range steps {
		tag, err := conn.Exec(ctx, step.exists)
		if err == nil && tag.RowsAffected() == 0 {
			_, err = conn.Exec(ctx, step.create)
		}
		if err != nil {
			return fmt.Errorf("prepare the role and database on %s: %w", primary.Name, err)
		}
	}
	return c.ensureSlots(ctx, conn, primary)
}

// ensureSlots gives every other replica a physical slot on the primary, which keeps
// WAL from now on, before the replica's base backup is taken.
func (c *Cluster) ensureSlots(ctx context.Context, conn *pgx.Conn, primary *Member) error {
	for _, m := range c.members {
		// The first primary is a replica once it has been rebuilt as one.
		if m == primary || m.Number == 0 && !m.isStandby() {
			continue
		}
		if err := ensureSlot(ctx, conn, m); err != nil {
			return err
		}
	}
	return nil
}

func ensureSlot(ctx context.Context, conn *pgx.Conn, m *Member) error {
	_, err := conn.Exec(ctx, `SELECT pg_create_physical_replication_slot($1, true)
		WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1)`, m.Name)
	if err != nil {
		return fmt.Errorf("create the replication slot of %s: %w", m.Name, err)
	}
	return nil
}
