package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Start brings up the stack in opts.Dir: it starts what is missing or dead, leaves
// running processes alone, and returns when every one is ready. When it fails, what
// it started is stopped; of a new stack nothing is left. The caller owns the stack
// and calls [Stack.Close], unless opts.Detach is set and the stack is meant to stay.
func Start(ctx context.Context, opts Options) (*Stack, error) {
	if err := opts.normalize(); err != nil {
		return nil, err
	}
	held, err := claimFolder(ctx, opts.Dir)
	if err != nil {
		return nil, err
	}
	s, fresh, err := prepare(opts, held)
	if err != nil {
		if fresh {
			if opts.Config != nil {
				err = errors.Join(err, removeFile(filepath.Join(opts.Dir, configFile)))
			}
			return nil, errors.Join(err, (&Stack{dir: opts.Dir}).removeFolder(held))
		}
		held.release()
		return nil, err
	}
	started, err := s.bringUp(ctx, opts.counts())
	if err != nil {
		return nil, errors.Join(err, s.abandon(ctx, fresh, started))
	}
	if s.detach {
		s.releaseClaim()
	}
	return s, nil
}

// prepare reads the stack of the folder, or makes a new one's state.
func prepare(opts Options, held *claim) (_ *Stack, fresh bool, err error) {
	st, err := readState(opts.Dir)
	if fresh = errors.Is(err, ErrNoStack); err != nil && !fresh {
		return nil, false, err
	}
	path := opts.ConfigPath
	if opts.Config != nil {
		path = filepath.Join(opts.Dir, configFile)
	}
	if !fresh && st.Config != path {
		return nil, false, fmt.Errorf("the stack in %s runs with the configuration %s, not %s: stop it first", opts.Dir, st.Config, path)
	}
	if opts.Config != nil {
		data, err := json.MarshalIndent(opts.Config, "", "  ")
		if err != nil {
			return nil, fresh, fmt.Errorf("encode the configuration: %w", err)
		}
		if err := replaceFile(path, append(data, '\n')); err != nil {
			return nil, fresh, err
		}
	}
	cfg, err := config.Load(path)
	if err != nil {
		return nil, fresh, err
	}
	if fresh {
		st = state{Config: path, ConfigWritten: opts.Config != nil}
		if st.WorkDir, err = os.Getwd(); err != nil {
			return nil, true, fmt.Errorf("find the working folder: %w", err)
		}
		st.RunDir = cfg.RunDir
		if !filepath.IsAbs(st.RunDir) {
			st.RunDir = filepath.Join(st.WorkDir, st.RunDir)
		}
		_, err := os.Stat(st.RunDir)
		st.RunDirMade = errors.Is(err, fs.ErrNotExist)
	}
	if st.BootID, err = sameBoot(&st); err != nil {
		return nil, fresh, err
	}
	st.BinDir, st.LogDir, st.LogLevel = opts.BinDir, opts.LogDir, opts.LogLevel
	s := attach(opts.Dir, st, cfg, opts.Logger)
	s.claim, s.detach, s.stopTimeout = held, opts.Detach, opts.StopTimeout
	if err := os.MkdirAll(st.LogDir, 0o700); err != nil {
		return nil, fresh, fmt.Errorf("create the folder of the logs: %w", err)
	}
	return s, fresh, writeState(opts.Dir, st)
}

// sameBoot forgets processes of an earlier boot and gives the id of this one.
func sameBoot(st *state) (string, error) {
	boot, err := bootID()
	if st.BootID != boot {
		for i := range st.Processes {
			st.Processes[i].identity = identity{}
		}
	}
	return boot, err
}

// Open attaches to the stack that [Start] with Detach made in dir. Processes started
// through it are detached. The error is [ErrNoStack] if there is none.
func Open(dir string) (*Stack, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the stack's folder: %w", err)
	}
	st, err := readState(dir)
	if err != nil {
		return nil, err
	}
	if st.BootID, err = sameBoot(&st); err != nil {
		return nil, err
	}
	cfg, err := config.Load(st.Config)
	if err != nil {
		cfg = nil // a file that is broken or gone must not keep the stack from being stopped
	}
	return attach(dir, st, cfg, slog.New(slog.DiscardHandler)), nil
}

func attach(dir string, st state, cfg *config.Config, log *slog.Logger) *Stack {
	s := &Stack{dir: dir, st: st, config: cfg, detach: true, stopTimeout: defaultStopTimeout, log: log}
	for _, e := range st.Processes {
		s.processes = append(s.processes, &Process{stack: s, service: e.Service, number: e.Number, id: e.identity})
	}
	return s
}

// bringUp starts what is not running and waits for all. It returns what it started.
func (s *Stack) bringUp(ctx context.Context, counts []count) (started []*Process, err error) {
	for _, c := range counts {
		for number := 1; number <= c.number; number++ {
			s.add(c.service, number)
		}
	}
	if err := s.checkPorts(ctx); err != nil {
		return nil, err
	}
	for _, c := range counts {
		for _, p := range s.Processes() {
			if p.service != c.service || p.Running() {
				continue
			}
			if err := p.launch(); err != nil {
				return started, err
			}
			started = append(started, p)
			// At once: should this process be killed, the next one must know what runs.
			if err := s.record(ctx, p); err != nil {
				return started, err
			}
		}
	}
	return started, s.waitAll(ctx)
}

// waitAll waits until every process is ready. If one ends, the others are not waited
// for: they may be unready only because of it.
func (s *Stack) waitAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := s.Processes()
	failed := make([]error, len(all))
	var group sync.WaitGroup
	for i, p := range all {
		group.Go(func() {
			if failed[i] = p.WaitReady(ctx); errors.Is(failed[i], errEnded) {
				cancel()
			}
		})
	}
	group.Wait()
	var ended []error
	for _, err := range failed {
		if errors.Is(err, errEnded) {
			ended = append(ended, err)
		}
	}
	if ended != nil {
		return errors.Join(ended...)
	}
	return errors.Join(failed...)
}

// WaitReady returns when every process is ready.
func (s *Stack) WaitReady(ctx context.Context) error { return s.waitAll(ctx) }

// abandon cleans up after a failed start, even if ctx is what ended it.
func (s *Stack) abandon(ctx context.Context, fresh bool, started []*Process) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if fresh {
		return s.Close(ctx)
	}
	defer s.releaseClaim()
	return s.stopAll(ctx, started)
}

func (s *Stack) releaseClaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claim.release()
	s.claim = nil
}

// runDir opens the run directory if it is there.
func (s *Stack) runDir() (*rundir.Dir, error) {
	if _, err := os.Stat(s.st.RunDir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return rundir.Open(s.st.RunDir)
}
