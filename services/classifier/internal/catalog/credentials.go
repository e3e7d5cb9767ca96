package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/dial"
)

// Login is where and as whom catalogs are read.
type Login struct {
	// Servers in the order in which they are tried; the first is expected to be the
	// primary.
	Servers []Server
	Monitor config.Monitor
}

// Server is one of them.
type Server struct {
	Name string
	dial.Server
}

// statementTimeout of each query, in PostgreSQL's notation.
const statementTimeout = "30s"

// errStandby says that a server that is asked is no primary.
var errStandby = errors.New("is a standby")

// connect logs in to the primary, or to a standby if no server is one: what runs
// on a standby is what its own catalog says.
func (l *Login) connect(ctx context.Context, database string) (conn *pgx.Conn, primary bool, err error) {
	password, err := l.Monitor.Secret()
	if err != nil {
		return nil, false, err
	}
	var standby *pgx.Conn
	var failures error
	for _, b := range l.Servers {
		c, err := l.dial(ctx, b.Server, password, database)
		if err == nil {
			var recovering bool
			if err = c.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&recovering); err == nil && !recovering {
				if standby != nil {
					_ = standby.Close(ctx)
				}
				return c, true, nil
			}
			if err == nil && standby == nil {
				standby = c
				continue
			}
			_ = c.Close(ctx)
			if err == nil {
				err = errStandby
			}
		}
		failures = errors.Join(failures, fmt.Errorf("%s: %w", b.Name, err))
	}
	if standby != nil {
		return standby, false, nil
	}
	return nil, false, failures
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
