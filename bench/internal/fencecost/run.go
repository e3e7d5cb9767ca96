package fencecost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/perf/benchmath"

	"github.com/pgpilot/pgpilot/bench/internal/target"
	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

// Options of Run.
type Options struct {
	Stage *target.Stage
	// Targets are compared; the first is the one the others are measured against.
	Targets []target.Spec
	// Clients is how many sessions there are, Rate their statements per second in the
	// leisurely rows.
	Clients int
	Rate    float64
	// Shares are the shares of writes, in percent.
	Shares []float64
	// Each is how long each row is measured, after a second of warm-up.
	Each time.Duration
	// Rounds is how many pairs the cost to a writer is measured with; 0 leaves that out.
	Rounds int
	Seed   uint64
	Out    io.Writer
}

// Run measures everything and writes tables in Markdown as it goes.
func Run(ctx context.Context, o Options) (err error) {
	running := make([]target.Target, len(o.Targets))
	defer func() {
		for _, t := range running {
			if t != nil {
				err = errors.Join(err, t.Stop(context.WithoutCancel(ctx)))
			}
		}
	}()
	for i, spec := range o.Targets {
		if running[i], err = o.Stage.Start(ctx, spec); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, "| load | writes | mode | fall back | read p50 | read p99 | write p50 | statements/s |\n|---|---:|---|---:|---:|---:|---:|---:|\n")
	for _, rate := range []float64{o.Rate, 0} {
		for _, share := range o.Shares {
			l := Load{Clients: o.Clients, Writes: share / 100, Rate: rate}
			if err := o.row(ctx, running, l, loadName(rate), fmt.Sprintf("%g %%", share)); err != nil {
				return err
			}
		}
	}
	if err := o.row(ctx, running, Load{Clients: o.Clients, Chase: true}, "write, then read it at once", "50 %"); err != nil {
		return err
	}
	if o.Rounds == 0 {
		return nil
	}
	return o.writer(ctx, running)
}

func loadName(rate float64) string {
	if rate == 0 {
		return "full speed"
	}
	return fmt.Sprintf("%g/s", rate)
}

// row measures one load on each target.
func (o *Options) row(ctx context.Context, running []target.Target, l Load, name, writes string) error {
	for i, t := range running {
		got, err := o.measure(ctx, t, l)
		if err != nil {
			return fmt.Errorf("%s, %s writes, %s: %w", name, writes, o.Targets[i].Name, err)
		}
		fallback := "–"
		if got.Routed > 0 {
			fallback = fmt.Sprintf("%.1f %%", 100*got.Fallbacks/got.Routed)
		}
		done := got.Reads.TotalCount() + got.Writes.TotalCount()
		fmt.Fprintf(o.Out, "| %s | %s | %s | %s | %s | %s | %s | %.0f |\n", name, writes, o.Targets[i].Name, fallback,
			quantile(got, true, 50), quantile(got, true, 99), quantile(got, false, 50), float64(done)/o.Each.Seconds())
	}
	return nil
}

func quantile(o Outcome, reads bool, q float64) string {
	h := o.Writes
	if reads {
		h = o.Reads
	}
	if h.TotalCount() == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f ms", float64(h.ValueAtQuantile(q))/1e6)
}

func (o *Options) measure(ctx context.Context, t target.Target, l Load) (Outcome, error) {
	l.Warmup, l.Measure, l.Seed, l.Rows = time.Second, o.Each, o.Seed, workload.Rows(o.Stage.Scale)
	var before target.Counters
	got, err := l.perform(ctx, t.DSNs()[0], func() (err error) {
		before, err = t.Counters(ctx)
		return err
	})
	if err != nil {
		return got, err
	}
	after, err := t.Counters(ctx)
	got.Routed, got.Fallbacks = after.Reads-before.Reads, after.Fallbacks-before.Fallbacks
	return got, err
}

// writer compares single-row updates of one client, in pairs: what a fenced session
// pays for its writes.
func (o *Options) writer(ctx context.Context, running []target.Target) error {
	at := map[string]int{}
	for i, s := range o.Targets {
		at[s.Name] = i
	}
	base, ok := at["relaxed"]
	if !ok {
		return nil
	}
	l := Load{Clients: 1, Writes: 1}
	differences := map[int][]float64{}
	for round := range o.Rounds {
		o.Seed++
		medians := make([]float64, len(running))
		for n := range running {
			i := (n + round) % len(running)
			got, err := o.measure(ctx, running[i], l)
			if err != nil {
				return fmt.Errorf("updates, %s: %w", o.Targets[i].Name, err)
			}
			medians[i] = float64(got.Writes.ValueAtQuantile(50)) / 1e3
		}
		for i := range medians {
			differences[i] = append(differences[i], medians[i]-medians[base])
		}
	}
	fmt.Fprintf(o.Out, "\n| mode | single-row UPDATE, p50 minus that of relaxed, µs (95 %% confidence, %d paired rounds) |\n|---|---:|\n", o.Rounds)
	for i, s := range o.Targets {
		if s.Kind != target.Pgpilot || i == base {
			continue
		}
		d := benchmath.AssumeNothing.Summary(benchmath.NewSample(differences[i], &benchmath.DefaultThresholds), 0.95)
		fmt.Fprintf(o.Out, "| %s | %.1f (%.1f to %.1f) |\n", s.Name, d.Center, d.Lo, d.Hi)
	}
	return nil
}
