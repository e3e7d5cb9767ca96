package parking

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Lot is a set of parked sessions. It is safe for concurrent use.
type Lot struct {
	poll, wake int

	mu    sync.Mutex
	state struct {
		spots map[uint32]*Spot
		next  uint32
	}
}

// Spot is a parked session. Its fields are guarded by the lot's mu.
type Spot struct {
	lot     *Lot
	id      uint32
	sockets []int // of those that are watched: the client's, then servers'
	// pending says that the client has sent something that has been read already.
	pending bool
	left    bool
	gone    func(lastWords []byte)
}

// New makes an empty lot. Close it.
func New() (*Lot, error) {
	l := &Lot{}
	l.state.spots = map[uint32]*Spot{}
	var err error
	if l.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("create epoll set: %w", err)
	}
	if l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = unix.Close(l.poll)
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN}
	if err := unix.EpollCtl(l.poll, unix.EPOLL_CTL_ADD, l.wake, &ev); err != nil {
		l.Close()
		return nil, fmt.Errorf("watch eventfd: %w", err)
	}
	return l, nil
}

// Close gives the lot's own descriptors back, after Run has ended.
func (l *Lot) Close() {
	_ = unix.Close(l.wake)
	_ = unix.Close(l.poll)
}

// Run watches until ctx ends.
func (l *Lot) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // readable already if it is full
	})
	defer stop()
	events := make([]unix.EpollEvent, 64)
	for ctx.Err() == nil {
		n, err := unix.EpollWait(l.poll, events, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("watch parked sessions: %w", err)
		}
		for _, ev := range events[:n] {
			if ev.Pad != 0 {
				l.look(uint32(ev.Fd), int(ev.Pad)-1, ev.Events)
			}
		}
	}
	return nil
}

// Park watches a session's sockets: its client's, and those of the servers that it
// cannot do without. pending says that requests of the client have been read already. If
// one of them ends, gone is called, once, from another goroutine, with what the server
// has said about it, in whole messages; the session is out of the lot then. gone must not
// call the lot, which waits for it.
func (l *Lot) Park(client int, servers []int, pending bool, gone func(lastWords []byte)) (*Spot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.next++
	s := &Spot{lot: l, id: l.state.next, pending: pending, gone: gone}
	for i, fd := range append([]int{client}, servers...) {
		what := uint32(unix.EPOLLRDHUP)
		if i > 0 {
			what |= unix.EPOLLIN
		}
		if err := s.watch(unix.EPOLL_CTL_ADD, i, fd, what); err != nil {
			s.leaveLocked()
			return nil, err
		}
		s.sockets = append(s.sockets, fd)
	}
	l.state.spots[s.id] = s
	return s, nil
}

// watch says what an event carries: the spot, and the place of the socket in it.
func (s *Spot) watch(op, at, fd int, what uint32) error {
	ev := unix.EpollEvent{Events: what, Fd: int32(s.id), Pad: int32(at + 1)}
	if err := unix.EpollCtl(s.lot.poll, op, fd, &ev); err != nil {
		return fmt.Errorf("watch parked session: %w", err)
	}
	return nil
}

// Take takes the session out of the lot. It reports false if it has ended meanwhile.
func (s *Spot) Take() bool {
	s.lot.mu.Lock()
	defer s.lot.mu.Unlock()
	if s.left {
		return false
	}
	s.leaveLocked()
	return true
}

func (s *Spot) leaveLocked() {
	s.left = true
	delete(s.lot.state.spots, s.id)
	for _, fd := range s.sockets {
		_ = unix.EpollCtl(s.lot.poll, unix.EPOLL_CTL_DEL, fd, nil) // it is there
	}
}

// maxLastWords bounds what a server says when it ends a connection, in bytes.
const maxLastWords = 64 << 10

// look deals with an event of a socket.
func (l *Lot) look(id uint32, at int, events uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state.spots[id]
	if s == nil {
		return
	}
	fd := s.sockets[at]
	const over = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	var words []byte
	switch {
	case at == 0:
		if events&(unix.EPOLLHUP|unix.EPOLLERR) == 0 && s.goesOn(fd) {
			_ = s.watch(unix.EPOLL_CTL_MOD, at, fd, 0) // what it has sent is for a router
			return
		}
	case events&over == 0: // it says something by the way, which is for a router
		_ = s.watch(unix.EPOLL_CTL_MOD, at, fd, unix.EPOLLRDHUP)
		return
	default:
		words = make([]byte, maxLastWords)
		n, _, err := unix.Recvfrom(fd, words, unix.MSG_DONTWAIT)
		words = words[:max(0, n)]
		if err != nil {
			words = nil
		}
	}
	s.leaveLocked()
	s.gone(words)
}

// terminate is the first byte of the message with which a client takes its leave
// (PostgreSQL documentation: "Message Formats").
const terminate = 'X'

// goesOn reports whether a client that has closed its side still has requests to be
// served.
func (s *Spot) goesOn(fd int) bool {
	var first [1]byte
	n, _, err := unix.Recvfrom(fd, first[:], unix.MSG_DONTWAIT|unix.MSG_PEEK)
	return s.pending || err == nil && n == 1 && first[0] != terminate
}
