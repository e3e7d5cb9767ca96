package stack

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Keys of the package's log records.
const (
	logProcess = "process"
	logPID     = "pid"
)

// Stack is pgpilot's services of one configuration. Its methods may be called from
// several goroutines.
type Stack struct {
	dir         string
	detach      bool
	stopTimeout time.Duration
	log         *slog.Logger
	st          state // but for Processes, fixed once the stack is known
	config      *config.Config

	// recording is held over a change of the state file, and taken before mu.
	recording sync.Mutex

	mu        sync.Mutex
	claim     *claim     // held while the processes are this process's own, and by Start
	processes []*Process // in the order of starting
}

// Dir is the folder that names the stack.
func (s *Stack) Dir() string { return s.dir }

// Config is the configuration as read when the stack was started or opened, nil if
// the file of an opened stack can not be read any more. It is not to be changed.
func (s *Stack) Config() *config.Config { return s.config }

// ConfigPath is the file that the services read, and read again at SIGHUP.
func (s *Stack) ConfigPath() string { return s.st.Config }

// RunDir is the absolute path of the run directory.
func (s *Stack) RunDir() string { return s.st.RunDir }

// LogDir is the folder of the logs.
func (s *Stack) LogDir() string { return s.st.LogDir }

// Processes are all instances of all services, listeners first.
func (s *Stack) Processes() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.processes)
	order := []string{rundir.Listener, rundir.Router, rundir.Classifier, rundir.Lagpoller}
	slices.SortStableFunc(all, func(a, b *Process) int {
		return cmp.Or(slices.Index(order, a.service)-slices.Index(order, b.service), a.number-b.number)
	})
	return all
}

// Service returns an instance of a service by its number, counted from 1. It panics
// if there is none.
func (s *Stack) Service(service string, number int) *Process {
	if p := s.find(service, number); p != nil {
		return p
	}
	panic(fmt.Sprintf("stack: no %s.%d", service, number))
}

func (s *Stack) find(service string, number int) *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if p.service == service && p.number == number {
			return p
		}
	}
	return nil
}

// add returns an instance, known already or new and not started.
func (s *Stack) add(service string, number int) *Process {
	if p := s.find(service, number); p != nil {
		return p
	}
	p := &Process{stack: s, service: service, number: number}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = append(s.processes, p)
	return p
}

// AddRouter starts one more router and returns when it is ready. One that does not
// get ready stays part of the stack.
func (s *Stack) AddRouter(ctx context.Context) (*Process, error) {
	return s.AddInstance(ctx, rundir.Router)
}

// AddInstance starts one more instance of a service and returns when it is ready. One
// that does not get ready stays part of the stack.
func (s *Stack) AddInstance(ctx context.Context, service string) (*Process, error) {
	s.mu.Lock()
	number := 1
	for _, p := range s.processes {
		if p.service == service {
			number = max(number, p.number+1)
		}
	}
	p := &Process{stack: s, service: service, number: number}
	s.processes = append(s.processes, p)
	s.mu.Unlock()
	return p, p.Start(ctx)
}

func (s *Stack) program(service string) string { return filepath.Join(s.st.BinDir, service) }

func (s *Stack) httpSocket(p *Process) string {
	return filepath.Join(s.st.RunDir, p.Name()+".http.sock")
}

// record notes a started process in the state file.
func (s *Stack) record(ctx context.Context, started *Process) error {
	id, _ := started.last()
	return s.change(ctx, func(st *state) {
		st.put(entry{Service: started.service, Number: started.number, identity: id})
	})
}

// change changes the state file.
func (s *Stack) change(ctx context.Context, how func(*state)) error {
	s.recording.Lock()
	defer s.recording.Unlock()
	s.mu.Lock()
	held := s.claim != nil
	s.mu.Unlock()
	if !held {
		c, err := claimFolder(ctx, s.dir)
		if err != nil {
			return err
		}
		defer c.release()
	}
	st, err := readState(s.dir)
	if err != nil {
		return err
	}
	how(&st)
	return writeState(s.dir, st)
}

// put adds an entry or replaces that of the same instance.
func (st *state) put(e entry) {
	st.remove(e.Service, e.Number)
	st.Processes = append(st.Processes, e)
	slices.SortFunc(st.Processes, func(a, b entry) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), a.Number-b.Number)
	})
}

func (st *state) remove(service string, number int) {
	st.Processes = slices.DeleteFunc(st.Processes, func(o entry) bool { return o.Service == service && o.Number == number })
}
