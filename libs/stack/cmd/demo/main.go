// Command demo walks through what pgpilot does, on the running stack of make up.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

// limit bounds the whole walk: what does not come in this time does not come.
const limit = 5 * time.Minute

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	dir := flags.String("dir", ".run", "`folder` of the stack and its local cluster")
	fast := flags.Bool("fast", false, "do not pause for the reader")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	s, err := stack.Open(*dir)
	if errors.Is(err, stack.ErrNoStack) {
		return errors.New("pgpilot is not running: start it with make up")
	}
	if err != nil {
		return err
	}
	cluster, err := lab.Open(filepath.Join(*dir, "lab"))
	if errors.Is(err, lab.ErrNoCluster) {
		return errors.New("the demo pauses replicas, so it needs the local cluster: make down, then make demo without CONFIG")
	}
	if err != nil {
		return err
	}
	cfg, err := config.Load(s.ConfigPath())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return newWalk(s, cluster, cfg, newNarrator(os.Stdout, *fast)).run(ctx)
}
