package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/pgpilot/pgpilot/libs/lab"
)

const usage = `usage: stack [flags] command

  up      start what is not running: a local primary with two replicas, unless
          -config names real servers, and every service; wait until all is ready
  down    stop all of it and remove every file
  status  show each process and each server
  roll    restart every service, one after another, under its clients

flags:
`

// command is a parsed command line. Paths are absolute.
type command struct {
	name    string
	dir     string
	bin     string
	config  string
	routers int
	labPort int // 0 until up has chosen one
	timeout time.Duration
	out     io.Writer
}

func parse(args []string, out io.Writer) (command, error) {
	cmd := command{out: out}
	flags := flag.NewFlagSet("stack", flag.ContinueOnError)
	flags.StringVar(&cmd.dir, "dir", ".run", "`folder` for state, logs, the generated configuration and the local cluster")
	flags.StringVar(&cmd.bin, "bin", "bin", "`folder` of the programs")
	flags.StringVar(&cmd.config, "config", "", "configuration `file` for up that names real servers; no local cluster is started then")
	flags.IntVar(&cmd.routers, "routers", 1, "number of routers for up")
	flags.IntVar(&cmd.labPort, "lab-port", 0, fmt.Sprintf("`port` of the local primary for up, the replicas get the next ones;\nby default that of the local cluster that is there, or of an edited configuration, or %d", lab.DefaultPort))
	flags.DurationVar(&cmd.timeout, "timeout", 3*time.Minute, "longest time the command may take")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return cmd, err
	}
	if flags.NArg() != 1 {
		return cmd, errors.New(`which command? try "stack -h"; flags come before it`)
	}
	cmd.name = flags.Arg(0)
	if cmd.routers < 1 {
		return cmd, fmt.Errorf("-routers is %d: at least one router is needed", cmd.routers)
	}
	for _, path := range []*string{&cmd.dir, &cmd.bin, &cmd.config} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return cmd, fmt.Errorf("resolve %s: %w", *path, err)
		}
		*path = abs
	}
	return cmd, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	cmd, err := parse(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cmd.timeout)
	defer cancel()
	switch cmd.name {
	case "up":
		return cmd.up(ctx)
	case "down":
		return cmd.down(ctx)
	case "status":
		return cmd.status(ctx)
	case "roll":
		return cmd.roll(ctx)
	}
	return fmt.Errorf(`unknown command %q: try "stack -h"`, cmd.name)
}

func (cmd command) labDir() string { return filepath.Join(cmd.dir, "lab") }

func (cmd command) printf(format string, args ...any) {
	fmt.Fprintf(cmd.out, format, args...) // a terminal that is gone is no reason to stop half-way
}
