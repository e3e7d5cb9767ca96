package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgpilot/pgpilot/libs/config"
)

// Login is where and as whom catalogs are read.
type Login struct {
	// Servers in the order in which they are tried; the first is expected to be the
	// primary.
	Servers []config.Backend
	Monitor config.Monitor
}

// settings name everything that pgx would otherwise take from the PG… variables of
// the process's environment. Encryption is used where the server offers it, as
// libpq does by default.
const settings = "host=localhost port=5432 user=pgpilot dbname=postgres password=none passfile='' connect_timeout=0" +
	" sslmode=prefer sslcert='' sslkey='' sslrootcert='' target_session_attrs=any"

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
		c, err := l.dial(ctx, b, password, database)
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

func (l *Login) dial(ctx context.Context, b config.Backend, password, database string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(settings)
	if err != nil {
		return nil, fmt.Errorf("prepare connection: unset the environment variable PGSERVICE: %w", err)
	}
	host, port, err := b.HostPort()
	if err != nil {
		return nil, fmt.Errorf("read the address %q: %w", b.Address, err)
	}
	cfg.Host, cfg.Port = host, port
	cfg.User, cfg.Password, cfg.Database = l.Monitor.User, password, database
	if cfg.TLSConfig != nil {
		cfg.TLSConfig.ServerName = host
	}
	for _, f := range cfg.Fallbacks {
		f.Host, f.Port = host, port
	}
	if host[:1] == "/" { // PostgreSQL does not encrypt Unix sockets
		cfg.TLSConfig, cfg.Fallbacks = nil, nil
	}
	cfg.RuntimeParams = map[string]string{
		"application_name":              "pgpilot-classifier",
		"search_path":                   systemSchema,
		"statement_timeout":             statementTimeout,
		"default_transaction_isolation": "read committed",
		"jit":                           "off",
	}
	return pgx.ConnectConfig(ctx, cfg)
}
