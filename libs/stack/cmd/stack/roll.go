package main

import (
	"context"
	"errors"
	"time"

	"github.com/pgpilot/pgpilot/libs/stack"
)

// roll restarts every service with the programs that are there now.
func (cmd command) roll(ctx context.Context) error {
	s, err := stack.Open(cmd.dir)
	if errors.Is(err, stack.ErrNoStack) {
		return errors.New("nothing is running: start it with make up")
	}
	if err != nil {
		return err
	}
	began := time.Now()
	return s.Roll(ctx, func(p *stack.Process) {
		cmd.printf("%-14s restarted, ready after %s\n", p.Name(), time.Since(began).Round(time.Millisecond))
		began = time.Now()
	})
}
