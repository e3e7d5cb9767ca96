package bustest

import (
	"fmt"
	"slices"
	"sync"
)

// Refusals is the log of a NATS server, of which only what it refuses counts: its errors.
// The zero value is ready. It is safe for concurrent use.
type Refusals struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

// All gives what was refused until now.
func (r *Refusals) All() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// Noticef implements server.Logger of nats-server.
func (r *Refusals) Noticef(string, ...any) {}

// Warnf implements server.Logger.
func (r *Refusals) Warnf(string, ...any) {}

// Debugf implements server.Logger.
func (r *Refusals) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (r *Refusals) Tracef(string, ...any) {}

// Fatalf implements server.Logger.
func (r *Refusals) Fatalf(format string, v ...any) { r.Errorf(format, v...) }

// Errorf implements server.Logger.
func (r *Refusals) Errorf(format string, v ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, v...))
}
