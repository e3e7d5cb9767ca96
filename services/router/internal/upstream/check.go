package upstream

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Check asks whether the server is there and takes connections, on a new connection
// of pgpilot's own. A server that refuses this login, or is full (53300), is there:
// that is no matter of health. One that starts, stops or recovers (class 57), or that
// does not answer before ctx ends, is not.
func (c *Connector) Check(ctx context.Context) error {
	pg, err := c.dialMonitor(ctx, "pgpilot-check")
	if err == nil {
		_ = pg.Close(ctx) // it has answered; how the connection ends is no matter
		return nil
	}
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && !strings.HasPrefix(refusal.Code, "57") {
		return nil
	}
	return err
}
