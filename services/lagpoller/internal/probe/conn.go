package probe

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/staleness"
)

// Target is a server and how to log in to it. The login needs REPLICATION and
// pg_read_all_stats.
type Target struct {
	dial.Server
	User     string
	Password string
	Database string
}

// Conn is a connection to one server.
type Conn struct {
	user     string
	net      net.Conn
	frontend *pgproto3.Frontend

	base     lsn.Incarnation // without the timeline
	geometry lsn.Geometry
	version  int
	clock    staleness.Clock
	// timeline is the last one that IDENTIFY_SYSTEM gave.
	timeline lsn.Timeline
}

// Dial logs in and reads the incarnation, all within timeout.
func Dial(ctx context.Context, t Target, timeout time.Duration) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pg, err := t.Connect(ctx, dial.Login{User: t.User, Password: t.Password, Database: t.Database, Parameters: map[string]string{
		"application_name": "pgpilot-lagpoller",
		"replication":      "database",
		// A standby refuses every statement under a default of "serializable".
		"default_transaction_isolation": "read committed",
	}})
	if err != nil {
		return nil, t.explain(err)
	}
	hijacked, err := pg.Hijack()
	if err != nil {
		return nil, fmt.Errorf("take over the connection: %w", err)
	}
	clock, err := staleness.OpenClock()
	if err != nil {
		_ = hijacked.Conn.Close() // the reason matters, not this
		return nil, err
	}
	c := &Conn{clock: clock, user: t.User, net: hijacked.Conn, frontend: hijacked.Frontend}
	deadline, _ := ctx.Deadline()
	if err := c.identify(deadline); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection without a farewell: it may be in any state.
func (c *Conn) Close() { _ = c.net.Close() }

// exchange sends the queries in one write and reads all their answers. row gets
// each row with the number of its query; the values are valid during the call
// only. The first error, the server's included, is returned.
func (c *Conn) exchange(deadline time.Time, row func(query int, values [][]byte) error, queries ...string) error {
	if err := c.net.SetDeadline(deadline); err != nil {
		return fmt.Errorf("set the deadline: %w", err)
	}
	for _, q := range queries {
		c.frontend.SendQuery(&pgproto3.Query{String: q})
	}
	if err := c.frontend.Flush(); err != nil {
		return fmt.Errorf("send the query: %w", err)
	}
	var failed error
	for done := 0; done < len(queries); {
		msg, err := c.frontend.Receive()
		if err != nil {
			if failed != nil { // a FATAL error, and then the end
				return failed
			}
			return fmt.Errorf("receive the answer: %w", err)
		}
		switch m := msg.(type) {
		case *pgproto3.DataRow:
			if failed == nil {
				failed = row(done, m.Values)
			}
		case *pgproto3.ErrorResponse:
			if failed == nil {
				failed = pgconn.ErrorResponseToPgError(m)
			}
		case *pgproto3.ReadyForQuery:
			done++
		}
	}
	return failed
}
