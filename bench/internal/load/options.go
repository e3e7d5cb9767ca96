package load

import (
	"errors"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

// Options of a run.
type Options struct {
	// DSNs are the URLs to connect to: clients take turns.
	DSNs []string
	// Writes is the URL for what writes, where clients choose between servers: each has a
	// second connection then. Empty, everything goes to DSNs.
	Writes   string
	Workload *workload.Workload
	Protocol workload.Protocol
	// Clients run the workload. Idle more are connected and say nothing.
	Clients, Idle int
	// Rate is the transactions per second of all clients together; 0 is as many as
	// possible.
	Rate float64
	// Warmup runs before Measure and counts for nothing.
	Warmup, Measure time.Duration
	// Seed decides all random choices, Rows how many accounts there are.
	Seed uint64
	Rows int64
	// Threads of the generator; 0 is 1.
	Threads int
}

func (o *Options) check() error {
	switch {
	case len(o.DSNs) == 0:
		return errors.New("load needs somewhere to connect to")
	case o.Workload == nil:
		return errors.New("load needs a workload")
	case o.Clients < 1:
		return errors.New("load needs at least one client")
	case o.Measure <= 0:
		return errors.New("load needs a time to measure")
	case o.Rate > 0 && o.Workload.Reconnects:
		return errors.New("a workload that connects anew has no fixed rate")
	case o.Writes != "" && o.Workload.Reconnects:
		return errors.New("a workload that connects anew does not choose between servers")
	}
	if o.Threads == 0 {
		o.Threads = 1
	}
	o.Threads = min(o.Threads, o.Clients)
	return nil
}

// Latencies are kept from 1 µs to a minute with three digits.
const (
	shortest = int64(time.Microsecond)
	longest  = int64(time.Minute)
	digits   = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(shortest, longest, digits) }

// Result of a run: of what ended while it was measured, and with a fixed rate the
// latencies of what arrived then.
type Result struct {
	Elapsed                  time.Duration
	Transactions, Statements int64
	// Connects is how many connections were made while it was measured.
	Connects int64
	// Errors are transactions in which a statement failed, Stale those that read
	// something older than they had written, Unserved arrivals that were not answered
	// within the time that is allowed after the end.
	Errors, Stale, Unserved int64
	// Lost is how many connections broke.
	Lost int64
	// FirstError is what the first failure said.
	FirstError string
	// Latency of transactions, in nanoseconds.
	Latency *hdrhistogram.Histogram
}

func (r *Result) record(latency time.Duration) {
	// Only what is out of range fails, and it is put in range.
	_ = r.Latency.RecordValue(min(max(int64(latency), shortest), longest))
}

func (r *Result) fail(err error) {
	if r.FirstError == "" {
		r.FirstError = err.Error()
	}
}

// add takes another thread's part.
func (r *Result) add(o *Result) {
	r.Transactions += o.Transactions
	r.Statements += o.Statements
	r.Connects += o.Connects
	r.Errors += o.Errors
	r.Stale += o.Stale
	r.Unserved += o.Unserved
	r.Lost += o.Lost
	if r.FirstError == "" {
		r.FirstError = o.FirstError
	}
	r.Latency.Merge(o.Latency)
}
