package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
)

// Role is what a member is at this moment.
type Role string

// The roles of a member. A former primary that runs again is a RolePrimary too.
const (
	RolePrimary Role = "primary"
	RoleReplica Role = "replica"
	RoleStopped Role = "stopped"
	// RoleUnknown is that of a server which runs but does not answer.
	RoleUnknown Role = "no answer"
)

// statusTimeout bounds the wait for each member.
const statusTimeout = 3 * time.Second

// Status describes one member.
type Status struct {
	Member   *Member
	Role     Role
	PID      int    // of the postmaster, 0 if stopped
	Timeline uint32 // 0 if unknown
	LSN      string // insert position of a primary, replayed position of a replica
	// LagBytes is how far LSN is behind the flushed position of the cluster's primary, the most a replica can
	// have. That was read a moment earlier, so a busy lab may show a little less. Nil if there is
	// nothing to compare.
	LagBytes *int64
	Paused   bool // replay is paused or asked to
}

// Status asks every member, all at the same time. A member that does not answer is described, not an error.
func (c *Cluster) Status(ctx context.Context) []Status {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	primary := c.Primary()
	var head *string
	if _, running := primary.Running(); running {
		if lsn, err := primary.flushLSN(ctx); err == nil {
			head = &lsn
		}
	}
	result := make([]Status, len(c.members))
	_ = c.each(func(m *Member) error {
		result[m.Number] = m.status(ctx, head)
		return nil
	}, c.members...)
	return result
}

func (m *Member) flushLSN(ctx context.Context) (string, error) {
	conn, err := m.control(ctx)
	if err != nil {
		return "", err
	}
	defer closeConn(conn)
	var lsn string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&lsn); err != nil {
		return "", fmt.Errorf("read the position of %s: %w", m.Name, err)
	}
	return lsn, nil
}

// statusQuery takes a replica's timeline from what it receives, else from its last
// restartpoint; a primary's is the start of the name of the WAL file it writes.
const statusQuery = `
SELECT recovering, lsn::text, pg_wal_lsn_diff($1::text::pg_lsn, lsn)::int8,
       CASE WHEN recovering THEN pg_get_wal_replay_pause_state() <> 'not paused' ELSE false END,
       CASE WHEN recovering
            THEN coalesce((SELECT received_tli::text FROM pg_stat_wal_receiver WHERE received_tli > 0),
                          (SELECT timeline_id::text FROM pg_control_checkpoint()))
            ELSE ('x' || substr(pg_walfile_name(lsn), 1, 8))::bit(32)::int8::text END
FROM pg_is_in_recovery() AS recovering,
LATERAL (SELECT CASE WHEN recovering THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END AS lsn) AS position`

func (m *Member) status(ctx context.Context, head *string) Status {
	st := Status{Member: m, Role: RoleStopped}
	pid, running := m.Running()
	if !running {
		return st
	}
	st.PID, st.Role = pid, RoleUnknown
	conn, err := m.control(ctx)
	if err != nil {
		return st
	}
	defer closeConn(conn)
	if err := st.read(ctx, conn, head); err != nil {
		return Status{Member: m, Role: RoleUnknown, PID: pid}
	}
	return st
}

func (st *Status) read(ctx context.Context, conn *pgx.Conn, head *string) error {
	var recovering bool
	var lsn *string
	var timeline string
	err := conn.QueryRow(ctx, statusQuery, head).Scan(&recovering, &lsn, &st.LagBytes, &st.Paused, &timeline)
	if err != nil {
		return fmt.Errorf("ask %s for its status: %w", st.Member.Name, err)
	}
	tli, err := strconv.ParseUint(timeline, 10, 32)
	if err != nil {
		return fmt.Errorf("read the timeline of %s: %w", st.Member.Name, err)
	}
	st.Timeline, st.Role = uint32(tli), RolePrimary
	if recovering {
		st.Role = RoleReplica
	}
	if lsn != nil {
		st.LSN = *lsn
	}
	return nil
}

// isStandby reads what the server will be, or is, from its folder: a promotion removes the file.
func (m *Member) isStandby() bool {
	_, err := os.Stat(filepath.Join(m.dataDir(), "standby.signal"))
	return err == nil
}

// PrintStatus writes a table of the members.
func PrintStatus(w io.Writer, members []Status) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(table, "MEMBER\tROLE\tPORT\tPID\tTIMELINE\tLSN\tLAG BYTES\tREPLAY")
	for _, st := range members {
		pid, timeline, lsn, lag, replay := "-", "-", "-", "-", "-"
		if st.PID != 0 {
			pid = strconv.Itoa(st.PID)
		}
		if st.Timeline != 0 {
			timeline = strconv.FormatUint(uint64(st.Timeline), 10)
		}
		if st.LSN != "" {
			lsn = st.LSN
		}
		if st.LagBytes != nil && st.Role == RoleReplica {
			lag = strconv.FormatInt(max(0, *st.LagBytes), 10)
		}
		if st.Role == RoleReplica {
			replay = "running"
			if st.Paused {
				replay = "paused"
			}
		}
		_, e := fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", st.Member.Name, st.Role, st.Member.Port, pid, timeline, lsn, lag, replay)
		err = errors.Join(err, e)
	}
	return errors.Join(err, table.Flush())
}
