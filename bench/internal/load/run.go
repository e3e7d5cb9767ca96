package load

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Run runs the workload. begin and end are called, from another goroutine, when what is
// measured begins and ends. The fleet can only be closed afterwards.
func (f *Fleet) Run(ctx context.Context, begin, end func()) (Result, error) {
	total := Result{Latency: newHistogram()}
	start := time.Now()
	var began, ended time.Time
	var wg sync.WaitGroup
	wg.Go(func() {
		if sleep(ctx, time.Until(start.Add(f.opts.Warmup))) {
			began = time.Now()
			begin()
		}
		if sleep(ctx, time.Until(start.Add(f.opts.Warmup+f.opts.Measure))) {
			ended = time.Now()
			end()
		}
	})
	results, err := f.work(ctx, start)
	wg.Wait()
	for i := range results {
		total.add(&results[i])
	}
	total.Elapsed = ended.Sub(began)
	return total, errors.Join(err, ctx.Err())
}

// work runs the threads and waits for them.
func (f *Fleet) work(ctx context.Context, start time.Time) ([]Result, error) {
	if f.opts.Workload.Reconnects {
		return f.churn(ctx, start), nil
	}
	var wg sync.WaitGroup
	loops := make([]*loop, f.opts.Threads)
	errs := make([]error, f.opts.Threads)
	for i := range loops {
		var share []*client
		for n := i; n < len(f.clients); n += f.opts.Threads {
			share = append(share, f.clients[n])
		}
		l, err := newLoop(f.opts, share, start)
		if err != nil {
			errs[i] = err
			break
		}
		defer l.close()
		loops[i] = l
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i, l := range loops {
		wg.Go(func() { errs[i] = l.run(ctx) })
	}
	wg.Wait()
	results := make([]Result, len(loops))
	for i, l := range loops {
		results[i] = l.result
	}
	return results, errors.Join(errs...)
}

// sleep reports whether the time has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
