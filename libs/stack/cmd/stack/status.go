package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/stack"
)

// status fails if a part that should run does not, or is not ready.
func (cmd command) status(ctx context.Context) error {
	var failed []error
	s, stackErr := stack.Open(cmd.dir)
	switch {
	case stackErr == nil:
		processes := s.Processes()
		if err := printProcesses(ctx, cmd.out, processes); err != nil {
			return err
		}
		failed = append(failed, unready(ctx, processes))
	case !errors.Is(stackErr, stack.ErrNoStack):
		failed = append(failed, stackErr)
	}
	c, labErr := lab.Open(cmd.labDir())
	switch {
	case labErr == nil:
		cmd.printf("\n")
		failed = append(failed, lab.PrintStatus(cmd.out, c.Status(ctx)))
	case !errors.Is(labErr, lab.ErrNoCluster):
		failed = append(failed, labErr)
	}
	if errors.Is(stackErr, stack.ErrNoStack) && errors.Is(labErr, lab.ErrNoCluster) {
		cmd.printf("nothing is running: start it with make up\n")
	}
	return errors.Join(failed...)
}

func unready(ctx context.Context, processes []*stack.Process) error {
	var names []string
	for _, p := range processes {
		if report, err := p.Ready(ctx); err != nil || !report.Ready {
			names = append(names, p.Name())
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("not ready: %s; start what is dead with make up", strings.Join(names, ", "))
}

// printProcesses writes a table of the services' processes.
func printProcesses(ctx context.Context, w io.Writer, processes []*stack.Process) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(table, "SERVICE\tID\tPID\tREADY\tUPTIME")
	for _, p := range processes {
		pid, uptime := "-", "-"
		if running := p.Pid(); running != 0 {
			pid = strconv.Itoa(running)
		}
		if d, err := p.Uptime(); err == nil {
			uptime = d.Round(time.Second).String()
		}
		_, e := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", p.Service(), p.ID(), pid, readiness(ctx, p), uptime)
		err = errors.Join(err, e)
	}
	return errors.Join(err, table.Flush())
}

// readiness is "yes" or why not.
func readiness(ctx context.Context, p *stack.Process) string {
	if !p.Running() {
		return "stopped"
	}
	report, err := p.Ready(ctx)
	switch {
	case err != nil:
		return "no answer"
	case report.Ready:
		return "yes"
	}
	var ill []string
	for part, state := range report.Parts {
		if state != "ok" {
			ill = append(ill, part+": "+state)
		}
	}
	slices.Sort(ill)
	return cmp.Or(strings.Join(ill, ", "), "starting")
}
