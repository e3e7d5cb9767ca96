// Command versus compares two builds of pgpilot, or one with other targets, in interleaved rounds.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/pgpilot/pgpilot/bench/internal/command"
	"github.com/pgpilot/pgpilot/bench/internal/versus"
	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

func main() { os.Exit(command.Main("versus", run)) }

func run(ctx context.Context, args []string, out, said io.Writer) error {
	o := versus.Options{Warmup: 200 * time.Millisecond, Scale: 1, Logger: slog.New(slog.NewTextHandler(said, nil))}
	flags := flag.NewFlagSet("versus", flag.ContinueOnError)
	flags.SetOutput(said)
	flags.StringVar(&o.A, "a", "bin", "folder of the programs of the build to compare with")
	flags.StringVar(&o.B, "b", "", "folder of the programs of the other build, if there is one")
	flags.StringVar(&o.Target, "target", "strict", "the pgpilot that both are")
	others := flags.String("others", "", "targets to measure beside them, with commas between (pgbouncer,direct)")
	flags.StringVar(&o.Workload, "workload", "select", "what clients do")
	protocols := flags.String("protocols", "simple,extended,prepared", "how they do it, with commas between")
	flags.IntVar(&o.Clients, "clients", 16, "how many there are")
	flags.IntVar(&o.Rounds, "rounds", 15, "how often each is measured; six are the least for an interval")
	flags.DurationVar(&o.Measure, "measure", 600*time.Millisecond, "how long it is measured each time")
	flags.IntVar(&o.Connections, "connections", 24, "connections to servers that a target may have")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.B == "" && *others == "" || flags.NArg() > 0 {
		return errors.New("name the folder of the other build with -b, or other targets with -others, and nothing but flags")
	}
	if *others != "" {
		o.Others = strings.Split(*others, ",")
	}
	for _, p := range strings.Split(*protocols, ",") {
		o.Protocols = append(o.Protocols, workload.Protocol(p))
	}
	return versus.Run(ctx, o, out)
}
