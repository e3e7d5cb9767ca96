package poll

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Inbox carries functions from any goroutine to the loop, which runs them in
// order. Its descriptor becomes readable when there are some.
type Inbox struct {
	fd int

	mu     sync.Mutex
	state  inboxState // guarded by mu
	spare  []func()   // owned by the loop
	signal [8]byte
}

type inboxState struct {
	queue  []func()
	closed bool
}

// NewInbox makes an empty inbox.
func NewInbox() (*Inbox, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	b := &Inbox{fd: fd}
	binary.NativeEndian.PutUint64(b.signal[:], 1)
	return b, nil
}

// FD gives the descriptor to watch for In.
func (b *Inbox) FD() int { return b.fd }

// Post queues f for the loop and reports whether it will be run: after Close it
// is not, and the caller still owns whatever f would have taken over.
func (b *Inbox) Post(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.closed {
		return false
	}
	b.state.queue = append(b.state.queue, f)
	if len(b.state.queue) == 1 {
		// An eventfd refuses a write only when its counter is about to overflow, and
		// then it is readable already.
		_, _ = unix.Write(b.fd, b.signal[:])
	}
	return true
}

// Run runs what is queued. Only the loop calls it.
func (b *Inbox) Run() {
	var drained [8]byte
	_, _ = unix.Read(b.fd, drained[:])
	b.mu.Lock()
	todo := b.state.queue
	b.state.queue = b.spare[:0]
	b.mu.Unlock()
	for i, f := range todo {
		f()
		todo[i] = nil
	}
	b.spare = todo
}

// Close refuses what is posted from now on, runs what was posted before, and
// closes the descriptor.
func (b *Inbox) Close() error {
	b.mu.Lock()
	b.state.closed = true
	b.mu.Unlock()
	b.Run()
	return unix.Close(b.fd)
}
