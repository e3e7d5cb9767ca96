package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/pgpilot/pgpilot/bench/internal/matrix"
	"github.com/pgpilot/pgpilot/bench/internal/record"
	"github.com/pgpilot/pgpilot/bench/internal/target"
	"github.com/pgpilot/pgpilot/bench/internal/usage"
)

// ErrPaused says that the time was over before the plan. Run goes on with it the next
// time.
var ErrPaused = errors.New("the time is over before all is measured")

// closeTimeout bounds the end of targets and cluster.
const closeTimeout = 2 * time.Minute

// Options of Run.
type Options struct {
	// File has the plan in its header and gets the groups.
	File *record.File
	// BinDir has pgpilot's programs.
	BinDir string
	// Until is when no further group is begun; zero is never.
	Until time.Time
	// Progress gets a line for each group.
	Progress io.Writer
	Logger   *slog.Logger
}

// runner is the state of a run.
type runner struct {
	Options
	plan    matrix.Plan
	stage   *target.Stage
	running map[string]target.Target
}

// Run measures what the file lacks of its plan. Cluster and targets are its own and end
// with it.
func Run(ctx context.Context, o Options) (err error) {
	r := &runner{Options: o, plan: o.File.Header().Plan, running: map[string]target.Target{}}
	todo := r.missing()
	if len(todo) == 0 {
		return nil
	}
	if err := r.timeFor(todo); err != nil {
		return err // before anything is started
	}
	r.stage, err = target.Build(ctx, target.Settings{
		BinDir: o.BinDir, Scale: r.plan.Scale, Connections: r.plan.Connections, Logger: o.Logger,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	p := newProgress(o.Progress, r.plan, len(todo))
	for i, g := range todo {
		if err := r.timeFor(todo[i:]); err != nil {
			return err
		}
		done, err := r.group(ctx, g)
		if err != nil {
			return err
		}
		if err := o.File.Append(done); err != nil {
			return err
		}
		p.group(done)
	}
	return nil
}

func (r *runner) missing() []matrix.Group {
	var out []matrix.Group
	for _, g := range r.plan.Groups() {
		if !r.File.Has(g.Round, g.Case.Name()) {
			out = append(out, g)
		}
	}
	return out
}

// timeFor says that there is no time for the first of the groups that are left.
func (r *runner) timeFor(left []matrix.Group) error {
	// A second more for each target: to connect, and to start it the first time.
	takes := time.Duration(len(left[0].Targets)) * (r.plan.Warmup + r.plan.MeasureOf(left[0].Case) + time.Second)
	if r.Until.IsZero() || time.Now().Add(takes).Before(r.Until) {
		return nil
	}
	return fmt.Errorf("%w: %d of %d groups are missing, run it again to go on", ErrPaused, len(left), len(r.plan.Groups()))
}

// group measures all targets of a case, one after the other.
func (r *runner) group(ctx context.Context, g matrix.Group) (record.Group, error) {
	load, err := usage.Load()
	if err != nil {
		return record.Group{}, err
	}
	out := record.Group{Round: g.Round, Case: g.Case.Name(), At: time.Now().UTC(), Load: load}
	for _, name := range g.Targets {
		cell, err := r.cell(ctx, g, name)
		if err != nil {
			return record.Group{}, err
		}
		cell.Target = name
		out.Cells = append(out.Cells, cell)
	}
	return out, nil
}

// cell measures one target. What it gives as an error ends the run; what is the target's
// own fault is in the cell.
func (r *runner) cell(ctx context.Context, g matrix.Group, name string) (record.Cell, error) {
	specs, err := target.Find([]string{name})
	if err != nil {
		return record.Cell{}, err
	}
	spec := specs[0]
	demand := target.Demand{Protocol: g.Case.Protocol, Clients: g.Case.Clients, Idle: g.Case.Idle}
	if ok, why := r.stage.Supports(spec, demand); !ok {
		return record.Cell{Skipped: why}, nil
	}
	t, err := r.target(ctx, spec, g.Case.Fresh)
	if err == nil {
		var cell record.Cell
		if cell, err = r.measure(ctx, g, t); err == nil {
			return cell, nil
		}
	}
	if ctx.Err() != nil {
		return record.Cell{}, ctx.Err()
	}
	r.Logger.Warn("could not measure", "case", g.Case.Name(), "target", name, "error", err)
	return record.Cell{Failed: err.Error()}, nil
}

// target gives a running target, a fresh one if asked for.
func (r *runner) target(ctx context.Context, spec target.Spec, fresh bool) (target.Target, error) {
	if t := r.running[spec.Name]; t != nil {
		if !fresh {
			return t, nil
		}
		delete(r.running, spec.Name)
		if err := t.Stop(ctx); err != nil {
			return nil, err
		}
	}
	t, err := r.stage.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	r.running[spec.Name] = t
	return t, nil
}

// close stops targets before the servers that they are connected to.
func (r *runner) close(ctx context.Context) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer stop()
	var err error
	for _, t := range r.running {
		err = errors.Join(err, t.Stop(ctx))
	}
	return errors.Join(err, r.stage.Close(ctx))
}
