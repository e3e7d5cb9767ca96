package soak

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
)

// driver is one session of one client library.
type driver interface {
	// ask runs a statement and gives the first column of the first row, as text.
	ask(ctx context.Context, sql string, args ...any) (string, error)
	// raw is the connection for what goes past the library's own ways; nil: it has none.
	raw() *pgconn.PgConn
	// forgets reports whether DISCARD ALL is the library's to send: it remembers
	// statements that would be gone.
	forgets() bool
	close()
}

// pgxDriver is pgx in one of its modes.
type pgxDriver struct{ conn *pgx.Conn }

var pgxModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

func openPgx(ctx context.Context, dsn string, mode pgx.QueryExecMode) (driver, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	cfg.DefaultQueryExecMode = mode
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return pgxDriver{conn}, nil
}

func (d pgxDriver) ask(ctx context.Context, sql string, args ...any) (string, error) {
	rows, err := d.conn.Query(ctx, sql, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	got := ""
	for first := true; rows.Next(); first = false {
		if raw := rows.RawValues(); first && len(raw) > 0 {
			got = string(raw[0])
		}
	}
	return got, rows.Err()
}

func (d pgxDriver) raw() *pgconn.PgConn { return d.conn.PgConn() }
func (d pgxDriver) forgets() bool {
	return d.conn.Config().DefaultQueryExecMode <= pgx.QueryExecModeCacheDescribe
}
func (d pgxDriver) close() { shut(d.conn.PgConn()) }

// pqDriver is lib/pq.
type pqDriver struct {
	db   *sql.DB
	conn *sql.Conn
}

func openPq(ctx context.Context, dsn string) (driver, error) {
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close() // nothing is open
		return nil, err
	}
	return pqDriver{db, conn}, nil
}

func (d pqDriver) ask(ctx context.Context, text string, args ...any) (string, error) {
	rows, err := d.conn.QueryContext(ctx, text, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var got sql.NullString
	if columns, err := rows.Columns(); err != nil || len(columns) > 1 {
		return "", fmt.Errorf("%d columns: %w", len(columns), err)
	}
	for first := true; rows.Next(); first = false {
		if first {
			if err := rows.Scan(&got); err != nil {
				return "", err
			}
		}
	}
	return got.String, rows.Err()
}

func (d pqDriver) raw() *pgconn.PgConn { return nil }
func (d pqDriver) forgets() bool       { return false }
func (d pqDriver) close() {
	_ = d.conn.Close() // its end may have died
	_ = d.db.Close()
}

// wireDriver is the protocol itself: simple queries without arguments, the extended
// protocol with them.
type wireDriver struct{ conn *pgconn.PgConn }

func (d wireDriver) ask(ctx context.Context, sql string, args ...any) (string, error) {
	if len(args) == 0 {
		results, err := d.conn.Exec(ctx, sql).ReadAll()
		return first(results), err
	}
	var values [][]byte
	for _, a := range args {
		values = append(values, fmt.Append(nil, a))
	}
	result := d.conn.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	return first([]*pgconn.Result{result}), result.Err
}

func first(results []*pgconn.Result) string {
	if len(results) == 0 || len(results[0].Rows) == 0 || len(results[0].Rows[0]) == 0 {
		return ""
	}
	return string(results[0].Rows[0][0])
}

func (d wireDriver) raw() *pgconn.PgConn { return d.conn }
func (d wireDriver) forgets() bool       { return false }
func (d wireDriver) close()              { shut(d.conn) }

// sqlstate gives the SQLSTATE of a server's error, "connection" where there is none.
func sqlstate(err error) string {
	var pe *pgconn.PgError
	var pqe *pq.Error
	switch {
	case errors.As(err, &pe):
		return pe.Code
	case errors.As(err, &pqe):
		return string(pqe.Code)
	}
	return "connection"
}

// lost reports whether an error says that a connection was lost, to a server or to
// pgpilot. A wait in vain does not.
func lost(err error) bool {
	switch code := sqlstate(err); {
	case code == "connection":
		return !errors.Is(err, context.DeadlineExceeded)
	default:
		return code == "57P01" || strings.HasPrefix(code, "08")
	}
}
