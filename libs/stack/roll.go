package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Roll restarts every process of the stack, one after another, each with the program
// that is in the folder of the programs now. Clients notice a pause at most: where a
// service can run twice, a further instance does its work meanwhile. rolled is told of each
// process that is ready again. A stack on which Roll fails half-way goes on with what runs.
// It refuses to begin if the configuration would not be taken by a process beside one that
// has the one before: if it is not valid, or changes what cannot change meanwhile.
func (s *Stack) Roll(ctx context.Context, rolled func(*Process)) error {
	if err := s.checkRoll(ctx); err != nil {
		return err
	}
	for _, service := range []string{rundir.Lagpoller, rundir.Classifier, rundir.Router, rundir.Listener} {
		if err := s.rollService(ctx, service, rolled); err != nil {
			return err
		}
	}
	return nil
}

// checkRoll compares the configuration with the one in force in each process.
func (s *Stack) checkRoll(ctx context.Context) error {
	file, err := config.Load(s.st.Config)
	if err != nil {
		return fmt.Errorf("nothing is restarted: %w", err)
	}
	next, err := shown(file)
	if err != nil {
		return err
	}
	for _, p := range s.Processes() {
		if !p.Running() {
			continue
		}
		now, err := p.inForce(ctx, file)
		if err != nil {
			s.log.Info("restarting without having compared the configurations", logProcess, p.Name(), obs.KeyError, err)
			continue // it hangs, and to be restarted is what it needs
		}
		_, err = config.Changes(now, next)
		if fixed := (*config.FixedError)(nil); errors.As(err, &fixed) {
			return fmt.Errorf("nothing is restarted: %s has another value in %s than what runs, and services cannot be replaced one by one then: change it back, or stop everything and start it again", strings.Join(fixed.Keys, ", "), s.st.Config)
		}
	}
	return nil
}

// shown gives a configuration as a process shows it: with secrets masked.
func shown(c *config.Config) (*config.Config, error) {
	var s config.Config
	if err := json.Unmarshal([]byte(c.String()), &s); err != nil {
		return nil, fmt.Errorf("read the configuration as it is shown: %w", err)
	}
	return &s, nil
}

// inForce asks the process for its configuration. Keys that an older program does not
// know are as in next.
func (p *Process) inForce(ctx context.Context, next *config.Config) (*config.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := shown(next)
	if err != nil {
		return nil, err
	}
	response, err := p.get(ctx, "/config")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(c); err != nil {
		return nil, fmt.Errorf("read the configuration of %s: %w", p.Name(), err)
	}
	return c, nil
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
