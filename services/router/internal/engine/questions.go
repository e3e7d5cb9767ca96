package engine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
)

// openQuery lists the transactions in progress on the primary, without those that are
// idle in a transaction block: they have not begun to commit. Those that are prepared
// have a p in front, and come last: one that is being prepared is in one of the lists.
// Ids are of 32 bits there; the first column is a whole one of about now. The monitor
// must see all of them, and the server must be a primary (PostgreSQL documentation, "The
// Cumulative Statistics System": pg_stat_activity; "Transaction ID and Snapshot
// Information Functions"). The last columns are its position, as a probe reads it.
const openQuery = `SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text,
 pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE') AND NOT pg_catalog.pg_is_in_recovery(),
 pg_catalog.array_to_string(ARRAY(
  SELECT backend_xid::text FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL
   AND (backend_type = 'client backend' AND state IN ('idle in transaction', 'idle in transaction (aborted)')) IS NOT TRUE
  UNION ALL SELECT 'p' || transaction::text FROM pg_catalog.pg_prepared_xact()), ','),
 CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_current_wal_insert_lsn() END,
 CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8) END`

// committedQuery lists those of the given transactions that a replica has committed.
// Of one that it has not heard of, it must not be asked.
const committedQuery = `SELECT pg_catalog.array_to_string(ARRAY(
 SELECT x::text FROM pg_catalog.unnest($1::pg_catalog.xid8[]) AS x
  WHERE CASE WHEN x < pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()) THEN pg_catalog.pg_xact_status(x) = 'committed' END), ',')`

var runOpen = mustEncode(
	&pgproto3.Bind{PreparedStatement: "open"},
	&pgproto3.Execute{},
	&pgproto3.Sync{})

// inProgress is the primary's answer: the transactions in progress, those of them that
// are prepared, and its position.
type inProgress struct {
	xids, prepared []uint64
	at             lsn.Position
}

// readOpen reads the row of openQuery.
func readOpen(row [][]byte) (is inProgress, err error) {
	if len(row) != 5 {
		return is, fmt.Errorf("the transactions in progress have %d columns instead of 5", len(row))
	}
	near, err := strconv.ParseUint(string(row[0]), 10, 64)
	if err != nil {
		return is, fmt.Errorf("read a transaction's id: %w", err)
	}
	if string(row[1]) != "t" {
		return is, errors.New("it is no primary, or the monitor is not a member of pg_read_all_stats")
	}
	for s := range strings.SplitSeq(string(row[2]), ",") {
		if s == "" {
			continue
		}
		id, prepared := strings.CutPrefix(s, "p")
		short, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return is, fmt.Errorf("read a transaction's id: %w", err)
		}
		xid := fence.Full(near, uint32(short))
		is.xids = append(is.xids, xid)
		if prepared {
			is.prepared = append(is.prepared, xid)
		}
	}
	if is.at.LSN, err = lsn.Parse(string(row[3])); err != nil {
		return is, err
	}
	timeline, err := strconv.ParseUint(string(row[4]), 16, 32)
	if err != nil {
		return is, fmt.Errorf("read timeline: %w", err)
	}
	is.at.Timeline = lsn.Timeline(timeline)
	return is, nil
}

// readCommitted reads the row of committedQuery.
func readCommitted(row [][]byte) ([]uint64, error) {
	if len(row) != 1 {
		return nil, fmt.Errorf("the committed transactions have %d columns instead of 1", len(row))
	}
	var out []uint64
	for s := range strings.SplitSeq(string(row[0]), ",") {
		if s == "" {
			continue
		}
		xid, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read a transaction's id: %w", err)
		}
		out = append(out, xid)
	}
	return out, nil
}

// askCommitted makes the question about the transactions.
func askCommitted(xids []uint64) []byte {
	list := []byte{'{'}
	for i, x := range xids {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendUint(list, x, 10)
	}
	return mustEncode(
		&pgproto3.Bind{PreparedStatement: "committed", Parameters: [][]byte{append(list, '}')}},
		&pgproto3.Execute{},
		&pgproto3.Sync{})
}
