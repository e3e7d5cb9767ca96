package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
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
		c := newClient(0, i, f.opts)
		wg.Go(func() {
			buf := make([]byte, readSize)
			for ctx.Err() == nil {
				began := time.Since(start)
				if began >= to {
					return
				}
				err := f.visit(ctx, c, buf)
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

// visit connects, runs one transaction and disconnects.
func (f *Fleet) visit(ctx context.Context, c *client, buf []byte) error {
	ctx, stop := context.WithTimeout(ctx, visitTimeout)
	defer stop()
	conn, err := pgconn.ConnectConfig(ctx, f.config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	hijacked, err := conn.Hijack()
	if err != nil {
		return fmt.Errorf("take a client's connection: %w", err)
	}
	socket := hijacked.Conn
	defer socket.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := socket.SetDeadline(deadline); err != nil {
			return fmt.Errorf("bound a visit: %w", err)
		}
	}
	c.statements = 0
	for {
		if err := c.exchange(socket, buf); err != nil {
			return err
		}
		if c.request.Last {
			break
		}
	}
	if _, err := io.WriteString(socket, terminate); err != nil {
		return fmt.Errorf("say goodbye: %w", err)
	}
	return nil
}

// exchange sends a request and reads its answer, blocking.
func (c *client) exchange(socket net.Conn, buf []byte) error {
	c.request = c.script.Next()
	c.answer = answer{ready: c.request.Ready, checks: c.request.Checks, want: c.request.Want}
	if _, err := socket.Write(c.request.Bytes); err != nil {
		return fmt.Errorf("send a request: %w", err)
	}
	for have := 0; c.answer.ready > 0; {
		n, err := socket.Read(buf[have:])
		if err != nil {
			return fmt.Errorf("read an answer: %w", err)
		}
		have += n
		used := c.answer.read(buf[:have])
		if c.answer.lost != nil {
			return c.answer.lost
		}
		have = copy(buf, buf[used:have])
	}
	c.statements += int64(c.request.Statements)
	return c.answer.err
}
