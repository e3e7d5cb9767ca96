// Command fencecost measures what fencing costs an application and writes the tables
// of docs/consistency.md. It starts a cluster and the targets by itself.
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
	"github.com/pgpilot/pgpilot/bench/internal/fencecost"
	"github.com/pgpilot/pgpilot/bench/internal/target"
)

func main() { os.Exit(command.Main("fencecost", run)) }

// connections is how many connections a target may have to servers.
const connections = 60

func run(ctx context.Context, args []string, out, said io.Writer) (err error) {
	flags := flag.NewFlagSet("fencecost", flag.ContinueOnError)
	flags.SetOutput(said)
	bin := flags.String("bin", "bin", "folder of pgpilot's programs")
	modes := flags.String("targets", "direct,"+strings.Join(ofOneRouter(), ","), "what is compared, by the names of the benchmark's targets")
	clients := flags.Int("clients", 16, "sessions")
	rate := flags.Float64("rate", 400, "statements per second of all sessions in the leisurely rows")
	each := flags.Duration("each", 10*time.Second, "how long each row is measured")
	rounds := flags.Int("rounds", 12, "pairs for the cost to a writer; 0 leaves that out")
	seed := flags.Uint64("seed", 1, "what is done by chance")
	if err := flags.Parse(args); err != nil {
		return err
	}
	specs, err := target.Find(strings.Split(*modes, ","))
	if err != nil {
		return err
	}
	stage, err := target.Build(ctx, target.Settings{BinDir: *bin, Scale: 1, Connections: connections, Logger: slog.New(slog.NewTextHandler(said, nil))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Close(context.WithoutCancel(ctx))) }()
	return fencecost.Run(ctx, fencecost.Options{
		Stage: stage, Targets: specs, Clients: *clients, Rate: *rate, Shares: []float64{0, 1, 5, 20, 50},
		Each: *each, Rounds: *rounds, Seed: *seed, Out: out,
	})
}

// ofOneRouter names the targets that are a pgpilot of one router: one for each mode.
func ofOneRouter() []string {
	var names []string
	for _, s := range target.Specs() {
		if s.Kind == target.Pgpilot && s.Routers == 1 {
			names = append(names, s.Name)
		}
	}
	return names
}
