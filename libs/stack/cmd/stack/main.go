// Command stack runs pgpilot's services, and a local PostgreSQL cluster for them, on
// this machine. make up, make down and make status call it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		for line := range strings.Lines(err.Error()) { // one for each problem
			fmt.Fprintln(os.Stderr, "stack:", strings.TrimSuffix(line, "\n"))
		}
		os.Exit(1)
	}
}
