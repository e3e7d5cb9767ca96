package main

import (
	"context"
	"errors"
	"os"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/stack"
)

// down stops as much as it can: what fails does not keep the rest running.
func (cmd command) down(ctx context.Context) error {
	s, stackErr := stack.Open(cmd.dir)
	c, labErr := lab.Open(cmd.labDir())
	if errors.Is(stackErr, stack.ErrNoStack) && errors.Is(labErr, lab.ErrNoCluster) {
		cmd.printf("nothing is running\n")
	}
	switch {
	case stackErr == nil:
		stackErr = s.Close(ctx)
	case errors.Is(stackErr, stack.ErrNoStack):
		stackErr = nil
	}
	switch {
	case labErr == nil:
		labErr = c.Close(ctx)
	case errors.Is(labErr, lab.ErrNoCluster):
		labErr = nil
	}
	err := errors.Join(stackErr, labErr)
	if err == nil {
		err = cmd.removeDevelopment()
	}
	_ = os.Remove(cmd.dir) // stays if it holds anything else
	return err
}
