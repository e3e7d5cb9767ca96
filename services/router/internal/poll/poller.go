package poll

import (
	"fmt"
	"math"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Interest is what a descriptor is watched for. Hang-ups and errors are always
// reported.
type Interest uint32

const (
	// In: there is something to read, or the peer has closed its sending side.
	In Interest = unix.EPOLLIN
	// Out: there is room to write.
	Out Interest = unix.EPOLLOUT
	// PeerClosed: the peer has closed its sending side, whatever is still unread.
	PeerClosed Interest = unix.EPOLLRDHUP
)

// Token identifies a registration in events: a slot and the generation of its
// use. A descriptor number that is closed and used again within one batch of
// events has another generation, so an event never reaches the wrong owner.
type Token struct {
	Slot uint32
	Gen  uint32
}

// Event is one descriptor's readiness.
type Event struct {
	Token Token
	flags uint32
}

// Readable reports that a read will not block: data, end of file or an error.
func (e Event) Readable() bool {
	return e.flags&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) != 0
}

// Writable reports that a write will not block.
func (e Event) Writable() bool { return e.flags&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) != 0 }

// Gone reports that the peer has closed the connection or that it broke.
func (e Event) Gone() bool {
	return e.flags&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
}

// Broken reports that the connection is closed in both directions or has failed.
func (e Event) Broken() bool { return e.flags&(unix.EPOLLHUP|unix.EPOLLERR) != 0 }

// batch is how many events one wait returns at most.
const batch = 256

// Poller is a level-triggered epoll set. It belongs to one goroutine.
type Poller struct {
	fd     int
	raw    [batch]unix.EpollEvent
	events [batch]Event
}

// New makes an empty set.
func New() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll set: %w", err)
	}
	return &Poller{fd: fd}, nil
}

// Close closes the set. Its descriptors stay open.
func (p *Poller) Close() error { return unix.Close(p.fd) }

// Add registers a descriptor.
func (p *Poller) Add(fd int, t Token, what Interest) error {
	return p.ctl(unix.EPOLL_CTL_ADD, fd, t, what)
}

// Mod changes what a registered descriptor is watched for.
func (p *Poller) Mod(fd int, t Token, what Interest) error {
	return p.ctl(unix.EPOLL_CTL_MOD, fd, t, what)
}

// Del ends a registration. It must come before the descriptor is closed or given
// away: while another process holds a copy, the set would go on reporting it.
func (p *Poller) Del(fd int) error {
	return p.ctl(unix.EPOLL_CTL_DEL, fd, Token{}, 0)
}

func (p *Poller) ctl(op, fd int, t Token, what Interest) error {
	ev := unix.EpollEvent{Events: uint32(what), Fd: int32(t.Slot), Pad: int32(t.Gen)}
	if err := unix.EpollCtl(p.fd, op, fd, &ev); err != nil {
		return fmt.Errorf("watch descriptor %d: %w", fd, err)
	}
	return nil
}

// Wait gives the ready descriptors, waiting at most the given time (negative:
// without limit). The result is valid until the next call.
//
// Before it blocks it gives up the processor once and looks again: peers on the
// same machine run meanwhile, and what they send is handled in one batch.
func (p *Poller) Wait(limit time.Duration) ([]Event, error) {
	if evs, err := p.now(); len(evs) > 0 || err != nil || limit == 0 {
		return evs, err
	}
	_, _, _ = syscall.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	if evs, err := p.now(); len(evs) > 0 || err != nil {
		return evs, err
	}
	n, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.raw[0])), batch, millis(limit), 0, 0)
	return p.collect(int(n), errno)
}

func (p *Poller) now() ([]Event, error) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.raw[0])), batch, 0, 0, 0)
	return p.collect(int(n), errno)
}

func (p *Poller) collect(n int, errno syscall.Errno) ([]Event, error) {
	if errno == unix.EINTR {
		return nil, nil
	}
	if errno != 0 {
		return nil, fmt.Errorf("wait for events: %w", errno)
	}
	for i := range n {
		r := &p.raw[i]
		p.events[i] = Event{Token{uint32(r.Fd), uint32(r.Pad)}, r.Events}
	}
	return p.events[:n], nil
}

// millis rounds up, so that a timer is never looked at just before it is due. The
// kernel takes an int.
func millis(d time.Duration) uintptr {
	if d < 0 {
		return ^uintptr(0)
	}
	n := d / time.Millisecond
	if d%time.Millisecond != 0 {
		n++
	}
	return uintptr(min(n, math.MaxInt32))
}
