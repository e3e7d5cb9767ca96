package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/dial"
)

// Login is where and as whom catalogs are read.
type Login struct {
	// Servers in the order in which they are tried.
	Servers []Server
	// Primary is the name of the one that takes writes, empty while that is not known: then
	// the first that is no standby is taken for it. Once it is known, another that claims
	// to be one, such as a former primary that has come back, is not.
	Primary string
	Monitor config.Monitor
}

// Server is one of them.
type Server struct {
	Name string
	dial.Server
}

// statementTimeout of each query, in PostgreSQL's notation.
const statementTimeout = "30s"

// leads reports whether a server that is no standby is the primary.
func (l *Login) leads(name string) bool { return l.Primary == "" || l.Primary == name }

// order gives the servers with the primary first.
func (l *Login) order() []Server {
	out := slices.Clone(l.Servers)
	slices.SortStableFunc(out, func(a, b Server) int {
		switch {
		case a.Name == l.Primary && b.Name != l.Primary:
			return -1
		case b.Name == l.Primary && a.Name != l.Primary:
			return 1
		}
		return 0
	})
	return out
}

// serverConn is a connection to a server.
type serverConn struct {
	*pgx.Conn
	// server is its name.
	server string
	// primary is false for a standby, and for one that is not the primary any more.
	primary bool
}

// errAbsent says that the primary does not have the database, or, where that is not known,
// no server.
var errAbsent = errors.New("there is no such database")

// noDatabase is the SQLSTATE of that (invalid_catalog_name).
const noDatabase = "3D000"

// connect logs in to the primary, or to a standby if no server is one: what runs
// on a standby is what its own catalog says. One that merely claims to be the primary is
// better than none.
func (l *Login) connect(ctx context.Context, database string) (conn *serverConn, err error) {
	password, err := l.Monitor.Secret()
	if err != nil {
		return nil, err
	}
	var standby, claims *serverConn
	defer func() {
		for _, c := range []*serverConn{standby, claims} {
			if c != nil && c != conn {
				_ = c.Close(ctx)
			}
		}
	}()
	var failures error
	absent, gone := 0, false
	for _, b := range l.order() {
		pg, err := l.dial(ctx, b.Server, password, database)
		if err != nil {
			if refusal := (*pgconn.PgError)(nil); errors.As(err, &refusal) && refusal.Code == noDatabase {
				absent++
				gone = gone || b.Name == l.Primary
			}
			failures = errors.Join(failures, fmt.Errorf("%s: %w", b.Name, err))
			continue
		}
		c := &serverConn{Conn: pg, server: b.Name}
		var recovering bool
		err = pg.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&recovering)
		switch {
		case err != nil:
			failures = errors.Join(failures, fmt.Errorf("%s: %w", b.Name, err))
		case !recovering && l.leads(b.Name):
			c.primary = true
			return c, nil
		case recovering && standby == nil:
			standby = c
			continue
		case !recovering && claims == nil:
			claims = c
			continue
		}
		_ = pg.Close(ctx)
	}
	switch {
	case standby != nil:
		return standby, nil
	case claims != nil:
		return claims, nil
	case gone, absent == len(l.Servers):
		return nil, fmt.Errorf("%w: %w", errAbsent, failures)
	}
	return nil, failures
}

func (l *Login) dial(ctx context.Context, s dial.Server, password, database string) (*pgx.Conn, error) {
	// pgx takes no configuration but its own, which is one of pgconn's with more to it.
	cfg, err := pgx.ParseConfig("host=localhost sslmode=disable")
	if err != nil {
		return nil, fmt.Errorf("prepare connection: unset the environment variable PGSERVICE: %w", err)
	}
	var c *pgx.Conn
	err = s.Attempt(dial.Login{User: l.Monitor.User, Password: password, Database: database, Parameters: map[string]string{
		"application_name":              "pgpilot-classifier",
		"search_path":                   systemSchema,
		"statement_timeout":             statementTimeout,
		"default_transaction_isolation": "read committed",
		"jit":                           "off",
	}}, func(settings *pgconn.Config) (err error) {
		cfg.Config = *settings
		c, err = pgx.ConnectConfig(ctx, cfg)
		return err
	})
	return c, err
}
