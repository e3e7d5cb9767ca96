package upstream

import (
	"context"

	"github.com/pgpilot/pgpilot/libs/dial"
)

// Beginnings are the parameters of transactions, and where names lead, as a connection begins with them, by the
// server's configuration, the role's, the database's and the startup parameters.
type Beginnings struct {
	// IdleInTransaction is idle_in_transaction_session_timeout, Transaction is
	// transaction_timeout (empty before release 17), both as SHOW gives them.
	IdleInTransaction, Transaction string
	// Isolation is default_transaction_isolation.
	Isolation string
	// SearchPath is search_path; empty if that is not known.
	SearchPath string
}

// beginningsQuery are two statements: what is stored may not be for the role to read.
var beginningsQuery = "SELECT pg_catalog.current_setting('idle_in_transaction_session_timeout'), pg_catalog.current_setting('transaction_timeout', true), pg_catalog.current_setting('default_transaction_isolation'), pg_catalog.current_setting('search_path'), pg_catalog.pg_is_in_recovery(); SELECT " + digestOf("session_user", "pg_catalog.current_database()")

// readBeginnings asks a new connection. It gives nil where that fails: the connection's
// use will tell why, and what is not known is not relied on. stored is as in Made; recovery is
// "t" of a standby, which releases before 14 do not report by themselves, and "f" of a primary.
func readBeginnings(ctx context.Context, pg *dial.Conn) (b *Beginnings, stored, recovery string) {
	res, err := pg.Exec(ctx, beginningsQuery).ReadAll()
	if len(res) == 0 || res[0].Err != nil || len(res[0].Rows) != 1 || len(res[0].Rows[0]) != 5 {
		return nil, "", ""
	}
	if err == nil && len(res) == 2 && len(res[1].Rows) == 1 && len(res[1].Rows[0]) == 1 {
		stored = string(res[1].Rows[0][0])
	}
	row := res[0].Rows[0]
	return &Beginnings{IdleInTransaction: string(row[0]), Transaction: string(row[1]), Isolation: string(row[2]), SearchPath: string(row[3])}, stored, string(row[4])
}
