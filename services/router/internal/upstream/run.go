package upstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

func readRun(ctx context.Context, pg *dial.Conn) (lsn.Incarnation, error) {
	res, err := pg.Exec(ctx, "SELECT "+lsn.RunColumns).ReadAll()
	if err != nil {
		return lsn.Incarnation{}, err
	}
	if len(res) != 1 || len(res[0].Rows) != 1 || len(res[0].Rows[0]) != 2 {
		return lsn.Incarnation{}, errors.New("the server gave no row")
	}
	row := res[0].Rows[0]
	if row[1] == nil {
		return lsn.Incarnation{}, errors.New("monitor.user may not see when the server's processes started: run GRANT pg_read_all_stats TO that user on the primary")
	}
	var i lsn.Incarnation
	if i.Postmaster, err = strconv.ParseInt(string(row[0]), 10, 64); err != nil {
		return lsn.Incarnation{}, fmt.Errorf("postmaster start: %w", err)
	}
	if i.Children, err = strconv.ParseInt(string(row[1]), 10, 64); err != nil {
		return lsn.Incarnation{}, fmt.Errorf("checkpointer start: %w", err)
	}
	return i, nil
}
