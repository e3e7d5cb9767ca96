package stack

import (
	"context"
	"fmt"
	"slices"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Roll restarts every process of the stack, one after another, each with the program
// that is in the folder of the programs now. Clients notice a pause at most: where a
// service can run twice, a further instance does its work meanwhile. rolled is told of each
// process that is ready again. A stack on which Roll fails half-way goes on with what runs.
func (s *Stack) Roll(ctx context.Context, rolled func(*Process)) error {
	for _, service := range []string{rundir.Lagpoller, rundir.Classifier, rundir.Router, rundir.Listener} {
		if err := s.rollService(ctx, service, rolled); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) rollService(ctx context.Context, service string, rolled func(*Process)) error {
	var old []*Process
	spare := 1
	for _, p := range s.Processes() {
		if p.service == service {
			old = append(old, p)
			spare = max(spare, p.number+1)
		}
	}
	if len(old) > 0 {
		p := s.add(service, spare)
		defer s.drop(p)
		switch err := p.Start(ctx); {
		case err == nil:
		case service == rundir.Lagpoller && !p.Running():
			// One of the release before has the bus's address for itself.
			s.log.Info("restarting without one more beside it", logProcess, p.Name(), obs.KeyError, err)
		default:
			return fmt.Errorf("start one more %s: %w", service, err)
		}
	}
	for _, p := range old {
		if err := p.Restart(ctx); err != nil {
			return fmt.Errorf("restart %s: %w", p.Name(), err)
		}
		rolled(p)
	}
	if p := s.find(service, spare); p != nil {
		if err := p.Terminate(ctx); err != nil {
			return err
		}
		return s.forget(ctx, p)
	}
	return nil
}

// drop forgets an instance that is not running any more, for this Stack alone.
func (s *Stack) drop(p *Process) {
	if p.Running() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = slices.DeleteFunc(s.processes, func(o *Process) bool { return o == p })
}

// forget removes an instance that has ended from the state file.
func (s *Stack) forget(ctx context.Context, p *Process) error {
	return s.change(ctx, func(st *state) { st.remove(p.service, p.number) })
}
