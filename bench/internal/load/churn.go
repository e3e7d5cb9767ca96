package load

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// churn runs a workload that connects anew for each transaction. Each client is a
// goroutine: what connecting costs, on both sides, is far more than goroutines do.
func (f *Fleet) churn(ctx context.Context, start time.Time) []Result {
	from, to := f.opts.Warmup, f.opts.Warmup+f.opts.Measure
	results := make([]Result, f.opts.Clients)
	var wg sync.WaitGroup
	for i := range results {
		r := &results[i]
		r.Latency = newHistogram()
		c := newClient(0, 0, i, f.opts)
		wg.Go(func() {
			for ctx.Err() == nil {
				began := time.Since(start)
				if began >= to {
					return
				}
				err := f.visit(ctx, i, c)
				now := time.Since(start)
				if err != nil {
					r.fail(err)
					r.Errors++
				}
				if now < from || now >= to {
					continue
				}
				r.record(now - began)
				if err == nil {
					r.Connects++
					r.Transactions++
					r.Statements += c.statements
				}
			}
		})
	}
	wg.Wait()
	return results
}

// visitTimeout bounds one connection with its transaction.
const visitTimeout = 30 * time.Second

// visit connects client i, runs one transaction and disconnects.
func (f *Fleet) visit(ctx context.Context, i int, c *client) error {
	ctx, stop := context.WithTimeout(ctx, visitTimeout)
	defer stop()
	conn, err := pgconn.ConnectConfig(ctx, f.configOf(i))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	hijacked, err := conn.Hijack()
	if err != nil {
		return fmt.Errorf("take a client's connection: %w", err)
	}
	defer hijacked.Conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := hijacked.Conn.SetDeadline(deadline); err != nil {
			return fmt.Errorf("bound a visit: %w", err)
		}
	}
	c.statements = 0
	for {
		if err := c.exchange(hijacked); err != nil {
			return err
		}
		if c.request.Last {
			break
		}
	}
	if _, err := io.WriteString(hijacked.Conn, terminate); err != nil {
		return fmt.Errorf("say goodbye: %w", err)
	}
	return nil
}

// exchange sends a request and reads its answer, blocking. Reading must go through the
// connection's own frontend: after a write that took long, pgconn has a reader of its
// own at work, which would take the answer away from anybody else.
func (c *client) exchange(h *pgconn.HijackedConn) error {
	c.request = c.script.Next()
	if _, err := h.Conn.Write(c.request.Bytes); err != nil {
		return fmt.Errorf("send a request: %w", err)
	}
	var failed error
	for ready := c.request.Ready; ready > 0; {
		m, err := h.Frontend.Receive()
		if err != nil {
			return fmt.Errorf("read an answer: %w", err)
		}
		switch m := m.(type) {
		case *pgproto3.ReadyForQuery:
			ready--
		case *pgproto3.ErrorResponse:
			if failed == nil {
				failed = describe(m)
			}
		}
	}
	c.statements += int64(c.request.Statements)
	return failed
}
