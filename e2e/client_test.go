package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/lab"
)

// client is one session that speaks the simple query protocol.
type client struct {
	t    testing.TB
	conn *pgconn.PgConn
}

// connect opens a session through pgpilot.
func (r *rig) connect() *client {
	r.t.Helper()
	c, err := r.dial("")
	if err != nil {
		r.t.Fatalf("connect: %v", err)
	}
	return c
}

// dial opens a session; more are further words of a connection string.
func (r *rig) dial(more string) (*client, error) {
	return dial(r.t, r.dsn()+" "+more)
}

func dial(t testing.TB, dsn string) (*client, error) {
	cfg, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	cfg.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) {}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c := &client{t: t, conn: conn}
	t.Cleanup(c.close)
	return c, nil
}

// direct opens a session on a server itself, as the superuser.
func direct(t testing.TB, m *lab.Member) *client {
	t.Helper()
	c, err := dial(t, m.SuperDSN())
	if err != nil {
		t.Fatalf("connect to %s: %v", m.Name, err)
	}
	return c
}

// dsn is the connection string of the stack.
func (r *rig) dsn() string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s dbname=%s sslmode=disable", r.port, lab.User, lab.Password, lab.Database)
}

func (c *client) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = c.conn.Close(ctx) // its end may have died on purpose
}

// run executes a string of statements and gives the rows of the last result.
func (c *client) run(sql string) ([][]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	results, err := c.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, nil
	}
	var rows [][]string
	for _, row := range results[len(results)-1].Rows {
		var values []string
		for _, v := range row {
			values = append(values, string(v))
		}
		rows = append(rows, values)
	}
	return rows, nil
}

// must executes statements that have to succeed, and gives the rows of the last.
func (c *client) must(sql string) [][]string {
	c.t.Helper()
	rows, err := c.run(sql)
	if err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// one executes a statement that has to give one value.
func (c *client) one(sql string) string {
	c.t.Helper()
	rows := c.must(sql)
	if len(rows) != 1 || len(rows[0]) != 1 {
		c.t.Fatalf("%s: %v, want one value", sql, rows)
	}
	return rows[0][0]
}

// fails executes statements that have to fail with a SQLSTATE.
func (c *client) fails(sql, code string) *pgconn.PgError {
	c.t.Helper()
	_, err := c.run(sql)
	if sqlstate(err) != code {
		c.t.Fatalf("%s: %v, want SQLSTATE %s", sql, err, code)
	}
	var pe *pgconn.PgError
	errors.As(err, &pe)
	return pe
}

// port gives the port of the server that a read runs on.
func (c *client) port() int {
	c.t.Helper()
	n, err := strconv.Atoi(c.one("SELECT inet_server_port()"))
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// route is the answer to SHOW pgpilot.last_route.
type route struct {
	Backend, Role, Reason, Fence, Replayed, Waited string
}

func (c *client) route() route {
	c.t.Helper()
	rows := c.must("SHOW pgpilot.last_route")
	if len(rows) != 1 || len(rows[0]) != 6 {
		c.t.Fatalf("SHOW pgpilot.last_route: %v", rows)
	}
	v := rows[0]
	return route{v[0], v[1], v[2], v[3], v[4], v[5]}
}

// sqlstate gives the SQLSTATE of a server's error, or nothing.
func sqlstate(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// gone reports whether the connection is no more.
func (c *client) gone() bool { return c.conn.IsClosed() }
