package fencecost

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5/pgconn"
)

// Load is what the clients do.
type Load struct {
	Clients int
	// Writes is the share of statements that write, from 0 to 1.
	Writes float64
	// Chase writes and then reads the same row at once, over and over, in place of
	// Writes.
	Chase bool
	// Rate is the statements per second of all clients together; 0 is as many as
	// possible.
	Rate float64
	// Warmup counts for nothing, Measure does.
	Warmup, Measure time.Duration
	Seed            uint64
	// Rows is how many accounts there are.
	Rows int64
}

// Outcome is what was measured.
type Outcome struct {
	Reads, Writes *hdrhistogram.Histogram // in nanoseconds
	// Routed and Fallbacks are what the target counted: statements known to read, and
	// those of them that went to the primary because of the fence.
	Routed, Fallbacks float64
}

func histogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(time.Minute), 3)
}

// perform runs the load against a target. begin is called when the warm-up is over.
func (l Load) perform(ctx context.Context, dsn string, begin func() error) (Outcome, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	conns := make([]*pgconn.PgConn, l.Clients)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close(context.WithoutCancel(ctx)) // the run is over
			}
		}
	}()
	for i := range conns {
		c, err := pgconn.Connect(ctx, dsn)
		if err != nil {
			return Outcome{}, fmt.Errorf("connect a client: %w", err)
		}
		conns[i] = c
		for name, text := range map[string]string{"read": readText, "write": writeText} {
			if _, err := c.Prepare(ctx, name, text, nil); err != nil {
				return Outcome{}, fmt.Errorf("prepare: %w", err)
			}
		}
	}
	start := time.Now()
	parts := make([]Outcome, l.Clients)
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() {
			w := worker{Load: l, conn: c, random: rand.New(rand.NewPCG(l.Seed, uint64(i))), start: start, row: int64(i) + 1}
			w.out = Outcome{Reads: histogram(), Writes: histogram()}
			if err := w.work(ctx); err != nil {
				stop(err)
			}
			parts[i] = w.out
		})
	}
	timer := time.NewTimer(l.Warmup)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		if err := begin(); err != nil {
			stop(err)
		}
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return Outcome{}, err
	}
	sum := parts[0]
	for _, p := range parts[1:] {
		sum.Reads.Merge(p.Reads)
		sum.Writes.Merge(p.Writes)
	}
	return sum, nil
}

const (
	readText  = "SELECT abalance FROM pgbench_accounts WHERE aid = $1"
	writeText = "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = $1"
)

// worker is one client at work.
type worker struct {
	Load
	conn   *pgconn.PgConn
	random *rand.Rand
	start  time.Time
	row    int64
	out    Outcome
}

func (w *worker) work(ctx context.Context) error {
	end := w.start.Add(w.Warmup + w.Measure)
	arrival := w.start
	for turn := 0; ; turn++ {
		if w.Rate > 0 {
			arrival = arrival.Add(time.Duration(w.random.ExpFloat64() / w.Rate * float64(w.Clients) * float64(time.Second)))
			if !sleepUntil(ctx, arrival) {
				return ctx.Err()
			}
		} else {
			arrival = time.Now()
		}
		if arrival.After(end) || ctx.Err() != nil {
			return ctx.Err()
		}
		writes := w.random.Float64() < w.Writes
		row := 1 + w.random.Int64N(w.Rows)
		if w.Chase {
			writes, row = turn%2 == 0, w.row
		}
		name, into := "read", w.out.Reads
		if writes {
			name, into = "write", w.out.Writes
		}
		res := w.conn.ExecPrepared(ctx, name, [][]byte{fmt.Append(nil, row)}, nil, nil).Read()
		if res.Err != nil {
			return fmt.Errorf("execute a %s: %w", name, res.Err)
		}
		if arrival.Sub(w.start) >= w.Warmup {
			// Only what is out of range fails, and no statement takes a minute.
			_ = into.RecordValue(int64(time.Since(arrival)))
		}
	}
}

// sleepUntil reports false if ctx ended first.
func sleepUntil(ctx context.Context, at time.Time) bool {
	d := time.Until(at)
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
