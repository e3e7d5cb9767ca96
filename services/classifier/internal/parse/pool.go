package parse

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
)

// ShortText is the longest text, in bytes, that has all workers at its disposal.
// Longer ones leave one to the short.
const ShortText = 32 << 10

// Limits of workers.
type Limits struct {
	// CPU is how much processor time one text may take.
	CPU time.Duration
	// Wall is how long one text may take on a clock, when the process hardly computes. It is
	// replaced then, which is not held against the text.
	Wall time.Duration
	// Queue is how long a text may wait for a worker.
	Queue time.Duration
	// Memory is how many bytes of private writable memory a worker may map beyond what
	// it has at the start (RLIMIT_DATA).
	Memory uint64
	// Tree is how many bytes a parse tree may have, at most 64 MB. Decoded in the
	// classifier it takes about 20 times that.
	Tree int
	// Statements is after how many texts a worker is replaced.
	Statements int
	// Resident is above how many bytes of memory a worker is replaced.
	Resident uint64
}

// DefaultLimits are explained, with measurements, in docs/adr/0009.
func DefaultLimits() Limits {
	return Limits{
		CPU:        time.Second,
		Wall:       time.Minute,
		Queue:      2 * time.Second,
		Memory:     384 << 20,
		Tree:       4 << 20,
		Statements: 100_000,
		Resident:   128 << 20,
	}
}

// Options of a Pool.
type Options struct {
	// Workers is the number of processes, at least 2.
	Workers int
	Limits  Limits
	Metrics *Metrics
	Log     *slog.Logger
}

// Pool parses texts in workers. It is safe for concurrent use.
type Pool struct {
	opts Options
	// idle has the workers that wait for a text.
	idle chan *worker
	// long has a token for each long text under way.
	long chan struct{}
	// ctx ends with Close, which waits for the keepers: one for each worker, which
	// replaces it when it is done.
	ctx     context.Context
	cancel  context.CancelFunc
	keepers sync.WaitGroup
}

// New starts the workers and waits until each has answered once. Close the Pool.
func New(opts Options) (*Pool, error) {
	if opts.Workers < 2 {
		return nil, fmt.Errorf("%d parser processes: at least 2 are needed, one of them for short texts", opts.Workers)
	}
	p := &Pool{opts: opts, idle: make(chan *worker, opts.Workers), long: make(chan struct{}, opts.Workers-1)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	type started struct {
		w   *worker
		err error
	}
	all := make(chan started)
	for range opts.Workers {
		go func() {
			w, err := start(&p.opts.Limits)
			all <- started{w, err}
		}()
	}
	var workers []*worker
	var failed error
	for range opts.Workers {
		s := <-all
		if s.err != nil {
			failed = s.err
			continue
		}
		workers = append(workers, s.w)
	}
	for _, w := range workers {
		if failed != nil {
			w.end()
			continue
		}
		p.keepers.Go(func() { p.keep(w) })
	}
	return p, failed
}

// Close ends the workers and waits for them. What is still being parsed fails.
func (p *Pool) Close() {
	p.cancel()
	p.keepers.Wait()
}

// Pauses before a worker is started again after one could not be, or was of no use.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 2 * time.Second
)

// keep lends one worker after the other.
func (p *Pool) keep(w *worker) {
	wait := firstPause
	for {
		p.opts.Metrics.workers.Inc()
		p.idle <- w // has room for one of each keeper
		select {
		case <-w.done:
		case <-p.ctx.Done():
			p.dismiss(w)
		}
		p.opts.Metrics.workers.Dec()
		if w.served > 0 {
			wait = firstPause
		}
		for w = nil; w == nil; {
			// Poisoned texts that come in a row must not make a loop of starts.
			if pause(p.ctx, wait); p.ctx.Err() != nil {
				return
			}
			var err error
			if w, err = start(&p.opts.Limits); err != nil {
				p.opts.Metrics.failures.Inc()
				p.opts.Log.Error("a parser process does not start, trying again", obs.KeyError, err)
			}
			wait = min(2*wait, lastPause)
		}
	}
}

// dismiss ends the worker, wherever it is.
func (p *Pool) dismiss(w *worker) {
	_ = w.cmd.Process.Kill() // whoever has it sees that and ends it; fails only if it is gone
	for {
		select {
		case idle := <-p.idle:
			idle.end() // perhaps another keeper's, which notices
		case <-w.done:
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
