package runner

import (
	"context"
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/pgpilot/pgpilot/bench/internal/load"
	"github.com/pgpilot/pgpilot/bench/internal/matrix"
	"github.com/pgpilot/pgpilot/bench/internal/record"
	"github.com/pgpilot/pgpilot/bench/internal/target"
	"github.com/pgpilot/pgpilot/bench/internal/usage"
	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

// coresPerThread is how many processors the machine must have for each thread of the
// generator: it should not starve what it measures.
const coresPerThread = 4

// clock is what has been used until one moment.
type clock struct {
	proxy, all, servers, self usage.Sample
	machine                   time.Duration
}

// read looks at all of it. It takes about a millisecond.
func (r *runner) read(t target.Target) (c clock, err error) {
	var errs [5]error
	c.proxy, errs[0] = usage.OfTrees(t.Proxy()...)
	c.all, errs[1] = usage.OfTrees(t.All()...)
	c.servers, errs[2] = usage.OfTrees(r.stage.Postmasters()...)
	c.self, errs[3] = usage.OfProcess(os.Getpid())
	c.machine, errs[4] = usage.Busy()
	return c, errors.Join(errs[:]...)
}

// measure runs a case on a target.
func (r *runner) measure(ctx context.Context, g matrix.Group, t target.Target) (record.Cell, error) {
	w, err := workload.Find(g.Case.Workload)
	if err != nil {
		return record.Cell{}, err
	}
	alone, err := usage.OfTrees(t.All()...)
	if err != nil {
		return record.Cell{}, err
	}
	fleet, err := load.Open(ctx, load.Options{
		DSNs: t.DSNs(), Writes: t.Writes(), Workload: w, Protocol: g.Case.Protocol, Clients: g.Case.Clients, Idle: g.Case.Idle,
		Rate: g.Case.Rate, Warmup: r.plan.Warmup, Measure: r.plan.MeasureOf(g.Case), Seed: g.Seed,
		Rows: workload.Rows(r.plan.Scale), Threads: max(1, runtime.NumCPU()/coresPerThread),
	})
	if err != nil {
		return record.Cell{}, err
	}
	defer fleet.Close()
	counted, err := t.Counters(ctx)
	if err != nil {
		return record.Cell{}, err
	}
	var first, last clock
	var firstErr, lastErr error
	result, err := fleet.Run(ctx,
		func() { first, firstErr = r.read(t) },
		func() { last, lastErr = r.read(t) })
	if err := errors.Join(err, firstErr, lastErr); err != nil {
		return record.Cell{}, err
	}
	cell, err := cellOf(result)
	if err != nil {
		return record.Cell{}, err
	}
	now, err := t.Counters(ctx)
	if err != nil {
		return record.Cell{}, err
	}
	cell.Reads, cell.Fallbacks = now.Reads-counted.Reads, now.Fallbacks-counted.Fallbacks
	if cell.ServerConnections, err = r.stage.ServerConnections(ctx); err != nil {
		return record.Cell{}, err
	}
	cell.ProxyCPU = (last.proxy.CPU - first.proxy.CPU).Seconds()
	cell.AllCPU = (last.all.CPU - first.all.CPU).Seconds()
	cell.ServerCPU = (last.servers.CPU - first.servers.CPU).Seconds()
	cell.GeneratorCPU = (last.self.CPU - first.self.CPU).Seconds()
	cell.MachineCPU = (last.machine - first.machine).Seconds()
	cell.ResidentBefore, cell.ResidentWarm, cell.Resident = alone.Resident, first.all.Resident, last.all.Resident
	return cell, nil
}

// cellOf takes over what the generator counted.
func cellOf(r load.Result) (record.Cell, error) {
	latency, err := record.EncodeLatency(r.Latency)
	if err != nil {
		return record.Cell{}, err
	}
	return record.Cell{
		Elapsed: r.Elapsed.Seconds(), Transactions: r.Transactions, Statements: r.Statements,
		Connects: r.Connects, Errors: r.Errors, Stale: r.Stale, Unserved: r.Unserved, Lost: r.Lost,
		FirstError: r.FirstError, Latency: latency,
	}, nil
}
