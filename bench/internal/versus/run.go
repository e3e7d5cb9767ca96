package versus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/pgpilot/pgpilot/bench/internal/load"
	"github.com/pgpilot/pgpilot/bench/internal/report"
	"github.com/pgpilot/pgpilot/bench/internal/target"
	"github.com/pgpilot/pgpilot/bench/internal/usage"
	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

// Options of Run.
type Options struct {
	// A and B are folders with pgpilot's programs; without B only the others are beside A.
	A, B string
	// Target is the pgpilot that both are (target.Specs), Others are measured beside them.
	Target string
	Others []string

	Workload  string
	Protocols []workload.Protocol
	Clients   int
	Rounds    int
	// Warmup runs before Measure, for each target of each round.
	Warmup, Measure time.Duration
	// Scale is how many hundred thousand accounts there are, Connections how many
	// connections to servers a target may have.
	Scale, Connections int
	Logger             *slog.Logger
}

// sample is one target in one round. Processor times are in seconds per statement.
type sample struct {
	tps, proxy, all, p50           float64
	servers, backends, replication float64
	// fallbacks is the share of reads that ran on the primary for the sake of the fence.
	fallbacks float64
	errors    int64
	first     string
}

// contestant is a target with its samples.
type contestant struct {
	name    string
	spec    target.Spec
	target  target.Target
	samples []sample
	// cannot says why it is not measured with the protocol at hand.
	cannot string
}

const closeTimeout = 2 * time.Minute

// Run measures, and writes a table for each protocol.
func Run(ctx context.Context, o Options, out io.Writer) (err error) {
	specs, err := target.Find(append([]string{o.Target}, o.Others...))
	if err != nil {
		return err
	}
	w, err := workload.Find(o.Workload)
	if err != nil {
		return err
	}
	stage, err := target.Build(ctx, target.Settings{BinDir: o.A, Scale: o.Scale, Connections: o.Connections, Logger: o.Logger})
	if err != nil {
		return err
	}
	var all []*contestant
	defer func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer stop()
		for _, c := range all {
			err = errors.Join(err, c.target.Stop(ctx))
		}
		err = errors.Join(err, stage.Close(ctx))
	}()
	start := func(name, bin string, spec target.Spec) error {
		stage.BinDir = bin
		t, err := stage.Start(ctx, spec)
		if err == nil {
			all = append(all, &contestant{name: name, spec: spec, target: t})
		}
		return err
	}
	for _, spec := range specs {
		switch {
		case spec.Name != o.Target:
			err = start(spec.Name, o.A, spec)
		default:
			if err = start("A", o.A, spec); err == nil && o.B != "" {
				err = start("B", o.B, spec)
			}
		}
		if err != nil {
			return err
		}
	}
	for _, protocol := range o.Protocols {
		for _, c := range all {
			c.samples = nil
			_, c.cannot = stage.Supports(c.spec, target.Demand{Clients: o.Clients, Protocol: protocol})
		}
		for round := range o.Rounds {
			seed := rand.Uint64()
			for _, i := range rand.Perm(len(all)) {
				if all[i].cannot != "" {
					continue
				}
				s, err := o.measure(ctx, stage, all[i].target, w, protocol, seed)
				if err != nil {
					return fmt.Errorf("measure %s in round %d: %w", all[i].name, round+1, err)
				}
				all[i].samples = append(all[i].samples, s)
			}
		}
		table(out, fmt.Sprintf("%s, %s, %d clients, %d rounds", o.Workload, protocol, o.Clients, o.Rounds), all)
	}
	return nil
}

// measure takes one sample.
func (o *Options) measure(ctx context.Context, stage *target.Stage, t target.Target, w *workload.Workload, p workload.Protocol, seed uint64) (sample, error) {
	fleet, err := load.Open(ctx, load.Options{
		DSNs: t.DSNs(), Writes: t.Writes(), Workload: w, Protocol: p, Clients: o.Clients, Warmup: o.Warmup, Measure: o.Measure,
		Seed: seed, Rows: workload.Rows(o.Scale),
	})
	if err != nil {
		return sample{}, err
	}
	defer fleet.Close()
	trees := [...][]int{t.Proxy(), t.All(), stage.Postmasters()}
	type reading struct {
		trees   [len(trees)]usage.Sample
		servers usage.Servers
	}
	var first, last reading
	var failed error
	read := func(into *reading) {
		var err error
		for i, pids := range trees {
			into.trees[i], err = usage.OfTrees(pids...)
			failed = errors.Join(failed, err)
		}
		into.servers, err = usage.OfServers(stage.Postmasters()...)
		failed = errors.Join(failed, err)
	}
	before, err := t.Counters(ctx)
	if err != nil {
		return sample{}, err
	}
	r, err := fleet.Run(ctx, func() { read(&first) }, func() { read(&last) })
	if err := errors.Join(err, failed); err != nil {
		return sample{}, err
	}
	after, err := t.Counters(ctx)
	if err != nil {
		return sample{}, err
	}
	n := float64(max(1, r.Statements))
	used := func(tree int) float64 { return (last.trees[tree].CPU - first.trees[tree].CPU).Seconds() / n }
	return sample{
		tps: float64(r.Transactions) / r.Elapsed.Seconds(), p50: float64(r.Latency.ValueAtQuantile(50)) / float64(time.Second),
		proxy: used(0), all: used(1), servers: used(2),
		backends:    (last.servers.Backends - first.servers.Backends).Seconds() / n,
		replication: (last.servers.Replication - first.servers.Replication).Seconds() / n,
		fallbacks:   (after.Fallbacks - before.Fallbacks) / max(1, after.Reads-before.Reads),
		errors:      r.Errors, first: r.FirstError,
	}, nil
}

// figures are the columns.
var figures = [...]struct {
	name  string
	of    func(sample) float64
	scale float64
}{
	{"tps", func(s sample) float64 { return s.tps }, 1},
	{"p50 µs", func(s sample) float64 { return s.p50 }, 1e6},
	{"proxy µs", func(s sample) float64 { return s.proxy }, 1e6},
	{"all µs", func(s sample) float64 { return s.all }, 1e6},
	{"servers µs", func(s sample) float64 { return s.servers }, 1e6},
	{"backends µs", func(s sample) float64 { return s.backends }, 1e6},
	{"replication µs", func(s sample) float64 { return s.replication }, 1e6},
	{"fallbacks %", func(s sample) float64 { return s.fallbacks }, 100},
}

// table writes each target's medians and its ratios to A. Processor times are per
// statement.
func table(out io.Writer, title string, all []*contestant) {
	fmt.Fprintf(out, "\n%s\n\n|", title)
	for _, f := range figures {
		fmt.Fprintf(out, " | %s | × A", f.name)
	}
	fmt.Fprint(out, " |\n|---|")
	for range figures {
		fmt.Fprint(out, "---|---|")
	}
	fmt.Fprintln(out)
	var base *contestant
	for _, c := range all {
		if c.name == "A" {
			base = c
		}
	}
	for _, c := range all {
		if c.cannot != "" {
			continue
		}
		fmt.Fprintf(out, "| %s", c.name)
		for _, f := range figures {
			var values, ratios []float64
			for i, s := range c.samples {
				values = append(values, f.of(s)*f.scale)
				if to := f.of(base.samples[i]); to > 0 {
					ratios = append(ratios, f.of(s)/to)
				}
			}
			median, _ := report.Summarize(values)
			ratio, _ := report.Summarize(ratios)
			fmt.Fprintf(out, " | %.1f | %s", median.Mid, ratio.Text(2))
		}
		fmt.Fprintln(out, " |")
		for _, s := range c.samples {
			if s.errors > 0 {
				fmt.Fprintf(out, "%s: %d errors, the first: %s\n", c.name, s.errors, s.first)
				break
			}
		}
	}
	for _, c := range all {
		if c.cannot != "" {
			fmt.Fprintf(out, "\n%s is not measured: %s\n", c.name, c.cannot)
		}
	}
}
