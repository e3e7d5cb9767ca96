// Package command is the main function of the bench's small programs: it ends them at a
// signal, and turns an error into a line and an exit code.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a program with its arguments and returns its exit code, 0 or 1. ctx ends with
// SIGINT or SIGTERM. What is asked for goes to out, everything else to said. A program
// that was asked for its flags returns [flag.ErrHelp].
func Main(name string, run func(ctx context.Context, args []string, out, said io.Writer) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}
