package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/pgpilot/pgpilot/libs/lab"
)

const usage = `usage: lab [flags] command [N]

  up               create and start what is missing, leave the rest as it is
  down             stop every server and remove every file
  status           show each member's role, timeline, position and lag
  pause-replay N   replica N goes on receiving but shows nothing new
  resume-replay N  undo pause-replay
  kill N           stop member N at once, without a checkpoint (0 is the primary)
  start N          start member N again
  promote N        make replica N the primary, the other replicas follow it; refused while
                   the primary runs (kill it first, such as "lab kill 0") unless -force

flags:
`

// command is a parsed command line.
type command struct {
	name     string
	number   int
	dir      string
	replicas int
	port     int
	portSet  bool
	timeout  time.Duration
	verbose  bool
	force    bool
}

// takesNumber says for each command whether a member's number follows it.
var takesNumber = map[string]bool{
	"up": false, "down": false, "status": false, "pause-replay": true, "resume-replay": true,
	"kill": true, "start": true, "promote": true,
}

func parse(args []string) (command, error) {
	var cmd command
	var words []string
	flags := flag.NewFlagSet("lab", flag.ContinueOnError)
	flags.StringVar(&cmd.dir, "dir", ".run/lab", "folder that names the lab")
	flags.IntVar(&cmd.replicas, "replicas", 2, "number of replicas for up")
	flags.IntVar(&cmd.port, "port", lab.DefaultPort, "port of the primary for up; replica N gets the N-th after it")
	flags.DurationVar(&cmd.timeout, "timeout", 2*time.Minute, "longest time the command may take")
	flags.BoolVar(&cmd.force, "force", false, "promote although the primary runs: two primaries, lost writes, replicas that can not follow")
	flags.BoolVar(&cmd.verbose, "v", false, "tell each step on standard error")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	// Flags may come before, between and after the words.
	for rest := args; ; {
		if err := flags.Parse(rest); err != nil {
			return cmd, err
		}
		if flags.NArg() == 0 {
			break
		}
		words = append(words, flags.Arg(0))
		rest = flags.Args()[1:]
	}
	flags.Visit(func(f *flag.Flag) { cmd.portSet = cmd.portSet || f.Name == "port" })
	if len(words) == 0 {
		return cmd, errors.New(`which command? try "lab -h"`)
	}
	cmd.name = words[0]
	numbered, known := takesNumber[cmd.name]
	switch {
	case !known:
		return cmd, fmt.Errorf(`unknown command %q: try "lab -h"`, cmd.name)
	case !numbered && len(words) > 1:
		return cmd, fmt.Errorf("%s takes no argument, but got %q", cmd.name, words[1])
	case numbered && len(words) != 2:
		return cmd, fmt.Errorf(`%s takes the number of one member, such as "lab %s 1"`, cmd.name, cmd.name)
	}
	if numbered {
		number, err := strconv.Atoi(words[1])
		if err != nil {
			return cmd, fmt.Errorf("%s takes the number of a member, not %q", cmd.name, words[1])
		}
		cmd.number = number
	}
	return cmd, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	cmd, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cmd.timeout)
	defer cancel()
	if cmd.name == "up" {
		return up(ctx, cmd, out)
	}
	cluster, err := lab.Open(cmd.dir)
	if cmd.name == "down" {
		if errors.Is(err, lab.ErrNoCluster) {
			_, err = fmt.Fprintf(out, "no lab in %s, nothing to stop\n", cmd.dir)
			return err
		}
		if err != nil {
			return err
		}
		return cluster.Close(ctx)
	}
	if err != nil {
		return err
	}
	if cmd.name != "status" {
		if err := act(ctx, cluster, cmd); err != nil {
			return err
		}
	}
	return lab.PrintStatus(out, cluster.Status(ctx))
}

func up(ctx context.Context, cmd command, out io.Writer) error {
	opts := lab.Options{Dir: cmd.dir, Replicas: cmd.replicas, BasePort: cmd.port, Detach: true}
	if !cmd.portSet {
		// An existing lab keeps the port it was given.
		if existing, err := lab.Open(cmd.dir); err == nil {
			opts.BasePort = existing.Members()[0].Port
		}
	}
	if cmd.verbose {
		opts.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	cluster, err := lab.Start(ctx, opts)
	if err != nil {
		return err
	}
	if err := lab.PrintStatus(out, cluster.Status(ctx)); err != nil {
		return err
	}
	if note, _ := cluster.FormerNote(); note != "" {
		if _, err := fmt.Fprintln(out, note); err != nil {
			return err
		}
	}
	p := cluster.Primary()
	_, err = fmt.Fprintf(out, "connect: psql %q (password %s)\n",
		fmt.Sprintf("host=%s port=%d dbname=%s user=%s", p.Host, p.Port, lab.Database, lab.User), lab.Password)
	return err
}

// act performs the commands about one member.
func act(ctx context.Context, cluster *lab.Cluster, cmd command) error {
	m, err := cluster.Member(cmd.number)
	if err != nil {
		return err
	}
	switch cmd.name {
	case "kill":
		return m.Kill(ctx)
	case "start":
		return m.Start(ctx)
	case "promote":
		primary := cluster.Primary()
		if _, running := primary.Running(); running && primary != m && !cmd.force {
			return fmt.Errorf(`%s is the primary and runs: stop it first with "lab kill %d" (or promote with -force to see two primaries)`,
				primary.Name, primary.Number)
		}
		return cluster.Promote(ctx, cmd.number)
	case "pause-replay":
		return m.PauseReplay(ctx)
	default:
		return m.ResumeReplay(ctx)
	}
}
