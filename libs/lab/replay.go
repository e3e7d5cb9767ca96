package lab

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// PauseReplay stops the replay of WAL on a replica, while it goes on receiving, and returns when it has
// stopped. A restart of the server resumes it.
func (m *Member) PauseReplay(ctx context.Context) error {
	return m.replayControl(ctx, "SELECT pg_wal_replay_pause()", "paused")
}

// ResumeReplay undoes [Member.PauseReplay].
func (m *Member) ResumeReplay(ctx context.Context) error {
	return m.replayControl(ctx, "SELECT pg_wal_replay_resume()", "not paused")
}

// replayControl sends a request and waits for the state it asks for: pausing is only
// requested by its function ("Recovery Control Functions").
func (m *Member) replayControl(ctx context.Context, request, want string) error {
	if _, running := m.Running(); !running {
		return fmt.Errorf(`%s is stopped: "lab start %d" starts it`, m.Name, m.Number)
	}
	if !m.isStandby() {
		return fmt.Errorf("%s is a primary: only the replay of a replica can be paused and resumed", m.Name)
	}
	conn, err := m.control(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	if _, err := conn.Exec(ctx, request); err != nil {
		return fmt.Errorf("control the replay of %s: %w", m.Name, err)
	}
	err = until(ctx, pollEvery, func() (bool, error) {
		var state string
		err := conn.QueryRow(ctx, "SELECT pg_get_wal_replay_pause_state()").Scan(&state)
		return state == want, err
	})
	if err != nil {
		return fmt.Errorf("wait for the replay of %s to be %s: %w", m.Name, want, err)
	}
	return nil
}

// WaitCaughtUp returns when every running replica has replayed all that was written on the primary
// before the call. It fails at once if a replica that is behind is paused, since it would wait for ever.
func (c *Cluster) WaitCaughtUp(ctx context.Context) error {
	primary := c.Primary()
	conn, err := primary.control(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	var target string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&target); err != nil {
		return fmt.Errorf("read the position of %s: %w", primary.Name, err)
	}
	// The insert position may lie beyond the end of the last record (after a page header)
	// and unflushed: the commit of one more record makes every replica pass it.
	if _, err := conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'pgpilot lab', '')"); err != nil {
		return fmt.Errorf("write a record on %s: %w", primary.Name, err)
	}
	var running []*Member
	for _, m := range c.members {
		// A stale former primary is no replica of anything.
		if _, ok := m.Running(); ok && m != primary && m.isStandby() {
			running = append(running, m)
		}
	}
	return c.each(func(m *Member) error { return m.waitReplayed(ctx, target) }, running...)
}

func (m *Member) waitReplayed(ctx context.Context, target string) error {
	conn, err := m.control(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	var replayed string
	err = until(ctx, pollEvery, func() (bool, error) {
		var reached, paused bool
		err := conn.QueryRow(ctx, `SELECT coalesce(l >= $1::text::pg_lsn, false), coalesce(l::text, 'nothing'),
			CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE false END
			FROM pg_last_wal_replay_lsn() AS l`, target).Scan(&reached, &replayed, &paused)
		if err == nil && paused && !reached {
			err = errors.New("its replay is paused, resume it first")
		}
		return reached, err
	})
	if err != nil {
		return fmt.Errorf("wait for %s to replay %s (it has replayed %s): %w", m.Name, target, replayed, err)
	}
	return nil
}

// Promote makes replica i the primary of the cluster and lets the other replicas follow it. The old
// primary is neither stopped nor changed: stop or kill it first unless two
// primaries are wanted. A replica that has received more WAL than replica i had replayed can not follow.
func (c *Cluster) Promote(ctx context.Context, i int) error {
	m, err := c.Member(i)
	if err != nil {
		return err
	}
	conn, err := m.control(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	var promoted bool
	// The function waits up to a minute for the end of recovery.
	if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery() AND pg_promote(true, 60)").Scan(&promoted); err != nil {
		return fmt.Errorf("promote %s: %w", m.Name, err)
	}
	if !promoted {
		return fmt.Errorf("promote %s: it is a primary already, or did not become one within a minute: see %s", m.Name, m.LogFile())
	}
	c.log.Info("promoted", logMember, m.Name)
	if err := c.recordPrimary(i); err != nil {
		return err
	}
	return c.follow(ctx, conn, m)
}

func (c *Cluster) recordPrimary(number int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Primary = number
	return writeState(c.dir, c.state)
}

// follow points the replicas to a new primary; stopped ones read it when they start.
func (c *Cluster) follow(ctx context.Context, conn *pgx.Conn, primary *Member) error {
	if err := c.ensureSlots(ctx, conn, primary); err != nil {
		return err
	}
	return c.each(func(m *Member) error {
		if _, running := m.Running(); m == primary || !running || !m.isStandby() {
			return nil
		}
		if err := m.writeConfig(); err != nil {
			return err
		}
		return m.exec(ctx, "SELECT pg_reload_conf()")
	}, c.members...)
}
