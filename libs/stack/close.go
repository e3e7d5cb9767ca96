package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Close ends every process, with SIGTERM and after [Options.StopTimeout] with
// SIGKILL, and removes every file of the stack. Closing a stack that is gone already
// is not an error; a Close that failed may be repeated.
func (s *Stack) Close(ctx context.Context) error {
	s.mu.Lock()
	held := s.claim
	s.mu.Unlock()
	owner := held != nil
	if !owner {
		if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		var err error
		if held, err = claimFolder(ctx, s.dir); err != nil {
			return err
		}
		if err := s.refresh(); err != nil {
			held.release()
			return err
		}
	}
	err := s.stopAll(ctx, s.Processes())
	if err == nil {
		err = s.removeFiles()
	}
	if err != nil {
		if !owner {
			held.release()
		}
		return err
	}
	s.mu.Lock()
	s.claim = nil
	s.mu.Unlock()
	return s.removeFolder(held)
}

// CloseAbandoned closes the stack in dir if no process owns it, for example because
// the one that did was killed. It reports false, without waiting, if one does. A
// detached stack is owned by nobody.
func CloseAbandoned(ctx context.Context, dir string) (bool, error) {
	held, err := tryClaim(dir)
	if held == nil {
		return false, err
	}
	s, err := Open(dir)
	if errors.Is(err, ErrNoStack) {
		return true, (&Stack{dir: dir}).removeFolder(held)
	}
	if err != nil {
		held.release()
		return false, err
	}
	s.claim = held
	if err := s.Close(ctx); err != nil {
		held.release()
		return false, err
	}
	return true, nil
}

// refresh takes over what other processes did to a detached stack since it was
// opened.
func (s *Stack) refresh() error {
	st, err := readState(s.dir)
	if errors.Is(err, ErrNoStack) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := sameBoot(&st); err != nil {
		return err
	}
	for _, e := range st.Processes {
		p := s.add(e.Service, e.Number)
		p.mu.Lock()
		if p.id != e.identity {
			p.id, p.child = e.identity, nil
		}
		p.mu.Unlock()
	}
	return nil
}

// stopAll ends those that clients use before those that they use, so that sessions
// which end in an orderly way still have all they need.
func (s *Stack) stopAll(ctx context.Context, all []*Process) error {
	var front, back []*Process
	for _, p := range all {
		if p.service == rundir.Listener || p.service == rundir.Router {
			front = append(front, p)
		} else {
			back = append(back, p)
		}
	}
	return errors.Join(s.stopTogether(ctx, front), s.stopTogether(ctx, back))
}

func (s *Stack) stopTogether(ctx context.Context, some []*Process) error {
	failed := make([]error, len(some))
	var group sync.WaitGroup
	for i, p := range some {
		group.Go(func() { failed[i] = p.stop(ctx, s.stopTimeout) })
	}
	group.Wait()
	return errors.Join(failed...)
}

// removeFiles removes what the stack's processes and the stack made.
func (s *Stack) removeFiles() error {
	err := s.clearRunDir()
	if own := filepath.Join(s.dir, logFolder); s.st.LogDir == own {
		err = errors.Join(err, os.RemoveAll(own))
	}
	if own := filepath.Join(s.dir, configFile); s.st.Config == own && s.st.ConfigWritten {
		err = errors.Join(err, removeFile(own))
	}
	if err != nil {
		return fmt.Errorf("remove the stack's files: %w", err)
	}
	return nil
}

// clearRunDir removes the run directory if the stack made it, else only the names of
// this stack's processes: others may live in it.
func (s *Stack) clearRunDir() error {
	if s.st.RunDirMade {
		return os.RemoveAll(s.st.RunDir)
	}
	dir, err := s.runDir()
	if dir == nil {
		return err
	}
	for _, p := range s.Processes() {
		names, err := dir.Claim(p.service, p.ID())
		if errors.Is(err, rundir.ErrTaken) {
			continue // an instance that is not ours has taken the id
		}
		if err == nil {
			err = names.Close()
		}
		if err != nil {
			return err
		}
	}
	pollers, err := dir.List(rundir.Lagpoller)
	if err != nil || len(pollers) > 0 {
		return err
	}
	return removeFile(dir.Join(bus.SocketName))
}

// removeFolder gives up the claim and deletes the stack's own files, and its folder
// if nothing else is in it.
func (s *Stack) removeFolder(held *claim) error {
	err := errors.Join(
		removeFile(filepath.Join(s.dir, stateFile)), removeFile(filepath.Join(s.dir, stateFile+".new")),
		removeFile(filepath.Join(s.dir, lockFile)))
	_ = os.Remove(s.dir) // stays if it holds anything else
	held.release()
	return err
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
