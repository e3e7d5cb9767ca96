// Command bench compares pgpilot with PostgreSQL alone, PgBouncer and pgpool-II, and
// writes a report.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pgpilot/pgpilot/bench/internal/matrix"
	"github.com/pgpilot/pgpilot/bench/internal/record"
	"github.com/pgpilot/pgpilot/bench/internal/report"
	"github.com/pgpilot/pgpilot/bench/internal/runner"
	"github.com/pgpilot/pgpilot/bench/internal/target"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Exit codes. A paused run is a success that is not complete; runs that differ are what
// was asked about.
const (
	exitClean  = 0
	exitError  = 1
	exitUsage  = 2
	exitPaused = 3
	exitDiffer = 4
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type options struct {
	plan, bin, out string
	limit          time.Duration
	reportOnly     bool
	// compared are the folders of two runs, if they are to be compared.
	compared []string
}

// run does what the arguments ask. What is asked for goes to out, everything else to
// said.
func run(ctx context.Context, args []string, out, said io.Writer) int {
	o, err := parse(args, said)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitClean
	case err != nil:
		return exitUsage
	}
	if len(o.compared) > 0 {
		err = compare(o.compared, out)
	} else {
		err = bench(ctx, o, said)
	}
	switch {
	case errors.Is(err, runner.ErrPaused):
		fmt.Fprintln(said, err)
		return exitPaused
	case errors.Is(err, report.ErrDiffer):
		fmt.Fprintln(said, err)
		return exitDiffer
	case err != nil:
		fmt.Fprintln(said, "bench:", err)
		return exitError
	}
	return exitClean
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.plan, "plan", "quick", "what to measure: quick, full, memory or smoke")
	flags.StringVar(&o.bin, "bin", "bin", "folder of pgpilot's programs")
	flags.StringVar(&o.out, "out", "", "folder of results and report; a run that was interrupted goes on in it (default bench-results/<plan>)")
	flags.DurationVar(&o.limit, "for", 0, "begin nothing new after this time; run again to go on (default no limit)")
	flags.BoolVar(&o.reportOnly, "report", false, "measure nothing, write the report of what is there")
	comparing := flags.Bool("compare", false, "measure nothing, say whether the runs in two folders agree: bench -compare A B")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *comparing {
		o.compared = flags.Args()
		if len(o.compared) != 2 {
			err := fmt.Errorf("-compare needs the folders of two runs, not %d", len(o.compared))
			fmt.Fprintln(out, err)
			return o, err
		}
		return o, nil
	}
	if flags.NArg() > 0 {
		err := fmt.Errorf("bench takes no arguments but flags, not %q", flags.Arg(0))
		fmt.Fprintln(out, err)
		return o, err
	}
	if o.out == "" {
		o.out = filepath.Join("bench-results", o.plan)
	}
	return o, nil
}

// resultsName is the file of results in the output folder.
const resultsName = "results.jsonl"

// bench measures, unless only a report is wanted, and writes the report of what there
// is, also after an interruption.
func bench(ctx context.Context, o options, out io.Writer) error {
	var until time.Time
	if o.limit > 0 {
		until = time.Now().Add(o.limit)
	}
	results := filepath.Join(o.out, resultsName)
	if o.reportOnly {
		return writeReport(results, o.out, out)
	}
	plan, err := matrix.Find(o.plan)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("create the folder of the results: %w", err)
	}
	header, err := describe(ctx, plan, o.bin)
	if err != nil {
		return err
	}
	file, err := record.Open(results, header)
	if err != nil {
		return err
	}
	defer file.Close()
	ran := runner.Run(ctx, runner.Options{
		File: file, BinDir: o.bin, Until: until, Progress: out,
		Logger: slog.New(slog.NewTextHandler(out, nil)),
	})
	if len(file.Groups()) == 0 {
		return ran
	}
	return errors.Join(ran, writeReport(results, o.out, out))
}

// describe makes the header of results that would be measured here and now.
func describe(ctx context.Context, plan matrix.Plan, bin string) (record.Header, error) {
	machine, err := record.ThisMachine()
	if err != nil {
		return record.Header{}, err
	}
	build, err := record.ThisBuild(bin, []string{rundir.Listener, rundir.Router, rundir.Classifier, rundir.Lagpoller})
	if err != nil {
		return record.Header{}, err
	}
	versions, err := target.Versions(ctx)
	if err != nil {
		return record.Header{}, err
	}
	return record.Header{Started: time.Now().UTC(), Machine: machine, Build: build, Programs: versions, Plan: plan}, nil
}

func writeReport(results, dir string, out io.Writer) error {
	header, groups, err := record.Load(results)
	if err != nil {
		return err
	}
	path, err := report.Write(dir, header, groups)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "report:", path)
	return nil
}

// compare says whether the runs in two folders agree.
func compare(folders []string, out io.Writer) error {
	var runs [2]report.Run
	for i, folder := range folders {
		var err error
		if runs[i].Header, runs[i].Groups, err = record.Load(filepath.Join(folder, resultsName)); err != nil {
			return err
		}
	}
	return report.Compare(out, runs[0], runs[1])
}
