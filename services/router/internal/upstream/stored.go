package upstream

import (
	"context"
	"fmt"
)

// Account is a role in a database: sessions of one Account begin with the same settings, as
// far as these are stored (ALTER ROLE … SET, ALTER DATABASE … SET).
type Account struct{ User, Database string }

// digestOf gives an expression for a digest of what is stored for a role and a database, which
// are expressions themselves: for the role in all databases, for all roles in the database and
// for the role in the database (PostgreSQL documentation, "pg_db_role_setting"). It is the same
// on all servers of a cluster once they have replayed the same.
func digestOf(role, database string) string {
	return "(SELECT coalesce(pg_catalog.hashtextextended(pg_catalog.string_agg(pg_catalog.concat_ws(' ', s.setdatabase, s.setrole, s.setconfig), ' ' ORDER BY s.setdatabase, s.setrole), 0), 0)" +
		" FROM pg_catalog.pg_db_role_setting s" +
		" WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = " + database + "))" +
		" AND s.setrole IN (0, (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = " + role + ")))"
}

// Stored reads, on a connection of pgpilot's own, what identifies what the server has stored
// for each of the accounts: a session that begins there from now on begins with that. Values
// of one account can be compared among servers of one cluster.
func (c *Connector) Stored(ctx context.Context, accounts []Account) ([]string, error) {
	pg, err := c.dialMonitor(ctx, "pgpilot-router")
	if err != nil {
		return nil, fmt.Errorf("read settings of roles: %w", err)
	}
	defer func() { _ = pg.Close(ctx) }() // it has answered; how the connection ends is no matter
	out := make([]string, len(accounts))
	for i, a := range accounts {
		res := pg.ExecParams(ctx, storedQuery, [][]byte{[]byte(a.User), []byte(a.Database)}, nil, nil, nil).Read()
		if res.Err != nil {
			return nil, fmt.Errorf("read settings of roles: %w", res.Err)
		}
		if len(res.Rows) != 1 {
			return nil, fmt.Errorf("read settings of roles: the server gave %d rows", len(res.Rows))
		}
		out[i] = string(res.Rows[0][0])
	}
	return out, nil
}

var storedQuery = "SELECT " + digestOf("$1::pg_catalog.text", "$2::pg_catalog.text")
