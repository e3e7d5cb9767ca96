package probe

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

const identifySystem = "IDENTIFY_SYSTEM"

// identityQuery reads what cannot change while this connection lives. The
// checkpointer stands for the processes below the postmaster: it runs on
// primaries and standbys, and a crash restart replaces it with all the others.
const identityQuery = `SELECT
 (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
 (SELECT (extract(epoch FROM backend_start) * 1000000)::bigint FROM pg_stat_activity WHERE backend_type = 'checkpointer'),
 pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
 current_setting('server_version_num'),
 current_setting('wal_block_size'),
 pg_size_bytes(current_setting('wal_segment_size'))`

// errNotYet is a server that has just started and has no checkpointer so far.
var errNotYet = errors.New("the server has not finished starting")

// identify reads the incarnation.
func (c *Conn) identify(deadline time.Time) error {
	err := c.exchange(deadline, func(query int, v [][]byte) error {
		if query == 0 {
			return c.readSystem(v)
		}
		return c.readIdentity(v)
	}, identifySystem, identityQuery)
	if err != nil {
		return fmt.Errorf("read the incarnation: %w", err)
	}
	if c.base.IsZero() || c.geometry.BlockSize == 0 {
		return errors.New("read the incarnation: the server gave no row")
	}
	return nil
}

// readSystem takes a row of IDENTIFY_SYSTEM: systemid, timeline, xlogpos, dbname.
// Its position is what was received, not what was replayed, and is not used.
func (c *Conn) readSystem(v [][]byte) error {
	if len(v) < 2 {
		return fmt.Errorf("IDENTIFY_SYSTEM gave %d columns instead of 4", len(v))
	}
	id, err := strconv.ParseUint(string(v[0]), 10, 64)
	if err != nil {
		return fmt.Errorf("read the system identifier: %w", err)
	}
	timeline, err := strconv.ParseUint(string(v[1]), 10, 32)
	if err != nil {
		return fmt.Errorf("read the timeline: %w", err)
	}
	c.base.SystemID, c.timeline = id, lsn.Timeline(timeline)
	return nil
}

func (c *Conn) readIdentity(v [][]byte) error {
	if len(v) != 6 {
		return fmt.Errorf("the incarnation has %d columns instead of 6", len(v))
	}
	if v[1] == nil {
		if string(v[2]) == "t" {
			return errNotYet
		}
		return fmt.Errorf("monitor.user %q may not see when the server's processes started, so a crash would go unnoticed: "+
			"run GRANT pg_read_all_stats TO %[1]q on the primary", c.user)
	}
	numbers := make([]int64, 0, 5)
	for _, i := range []int{0, 1, 3, 4, 5} {
		n, err := strconv.ParseInt(string(v[i]), 10, 64)
		if err != nil {
			return fmt.Errorf("read column %d of the incarnation: %w", i+1, err)
		}
		numbers = append(numbers, n)
	}
	c.base.Postmaster, c.base.Children = numbers[0], numbers[1]
	c.version = int(numbers[2])
	c.geometry = lsn.Geometry{BlockSize: uint32(numbers[3]), SegmentSize: uint32(numbers[4])}
	return nil
}
