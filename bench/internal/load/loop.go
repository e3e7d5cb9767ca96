package load

import (
	"container/heap"
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	readSize = 64 << 10
	batch    = 256
	// glance is how often a loop looks at the clock when nothing happens.
	glance = 50 * time.Millisecond
	// grace is how long what has arrived may take to be answered after the end.
	grace = 5 * time.Second
)

// loop is one thread of the generator with its share of the clients.
type loop struct {
	opts     Options
	clients  []*client
	start    time.Time
	from, to time.Duration // what is measured, from start
	result   Result

	epoll, timer int
	waiting      waiting
	armed        time.Duration // what the timer is set to, 0 for nothing
	buf          []byte
	events       []unix.EpollEvent
}

func newLoop(o Options, clients []*client, start time.Time) (*loop, error) {
	l := &loop{
		opts: o, clients: clients, start: start, from: o.Warmup, to: o.Warmup + o.Measure,
		result: Result{Latency: newHistogram()},
		buf:    make([]byte, readSize), events: make([]unix.EpollEvent, batch),
	}
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("create epoll set: %w", err)
	}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		_ = unix.Close(l.epoll)
		return nil, fmt.Errorf("create timer: %w", err)
	}
	if err := l.watch(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// timerSlot is the timer's number in events; clients have their own, and behind those the
// connections for what writes.
const timerSlot = -1

func (l *loop) watch() error {
	add := func(fd, slot int) error {
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(slot)}
		if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
			return fmt.Errorf("watch a client: %w", err)
		}
		return nil
	}
	for i, c := range l.clients {
		if err := unix.SetNonblock(c.fd, true); err != nil {
			return fmt.Errorf("prepare a client's socket: %w", err)
		}
		if err := add(c.fd, i); err != nil {
			return err
		}
		if c.writes == 0 {
			continue
		}
		if err := unix.SetNonblock(c.writes, true); err != nil {
			return fmt.Errorf("prepare a client's socket: %w", err)
		}
		if err := add(c.writes, i+len(l.clients)); err != nil {
			return err
		}
	}
	return add(l.timer, timerSlot)
}

func (l *loop) close() {
	_ = unix.Close(l.timer)
	_ = unix.Close(l.epoll)
}

// run is the thread.
func (l *loop) run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, c := range l.clients {
		l.ready(c, 0)
	}
	for {
		now := time.Since(l.start)
		if ctx.Err() != nil || l.finished(now) {
			break
		}
		if err := l.arm(now); err != nil {
			return err
		}
		n, err := unix.EpollWait(l.epoll, l.events, int(glance/time.Millisecond))
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for answers: %w", err)
		}
		now = time.Since(l.start)
		for i := range max(n, 0) {
			switch slot := int(l.events[i].Fd); {
			case slot == timerSlot:
				l.armed = 0
				_, _ = unix.Read(l.timer, l.buf[:8])
			case slot < len(l.clients):
				l.handle(l.clients[slot], l.clients[slot].fd, now)
			default:
				c := l.clients[slot-len(l.clients)]
				l.handle(c, c.writes, now)
			}
		}
		for len(l.waiting) > 0 && l.waiting[0].arrivals.next() <= now {
			l.serve(heap.Pop(&l.waiting).(*client))
		}
	}
	l.abandon()
	return nil
}

// handle reads what a client has been sent on one of its connections.
func (l *loop) handle(c *client, fd int, now time.Duration) {
	if c.dead {
		return
	}
	if c.receive(fd, l.buf) {
		l.ended(c, now)
		l.ready(c, now)
	}
}

// ready gives a free client its next transaction, now or when it arrives.
func (l *loop) ready(c *client, now time.Duration) {
	switch {
	case c.dead:
		// What was to arrive at it is found by abandon.
	case c.arrivals == nil:
		if now < l.to {
			c.begin(now)
		}
	case c.arrivals.next() >= l.to:
	case c.arrivals.next() <= now:
		l.serve(c)
		return
	default:
		heap.Push(&l.waiting, c)
		return
	}
	l.bury(c)
}

// serve begins the transaction that has arrived.
func (l *loop) serve(c *client) {
	since := c.arrivals.next()
	c.arrivals.advance()
	c.begin(since)
	l.bury(c)
}

// bury notes a client that has just been lost while sending.
func (l *loop) bury(c *client) {
	if c.dead && c.err != nil {
		l.ended(c, time.Since(l.start))
	}
}

// ended counts a transaction.
func (l *loop) ended(c *client, now time.Duration) {
	r := &l.result
	if c.err != nil {
		r.fail(c.err)
		if c.dead {
			r.Lost++
			_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, c.fd, nil)
			if c.writes > 0 {
				_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, c.writes, nil)
			}
		}
		r.Errors++
		c.err = nil
	} else if now >= l.from && now < l.to {
		r.Transactions++
		r.Statements += c.statements
		if c.stale {
			r.Stale++
		}
	}
	counted := now
	if c.arrivals != nil {
		counted = c.since
	}
	if counted >= l.from && counted < l.to {
		r.record(now - c.since)
	}
}

// finished says whether the run is over: in a closed loop at the end of what is
// measured, else when what has arrived until then is answered.
func (l *loop) finished(now time.Duration) bool {
	if now < l.to {
		return false
	}
	if now >= l.to+grace {
		return true
	}
	for _, c := range l.clients {
		if c.busy || !c.dead && c.arrivals != nil && c.arrivals.next() < l.to {
			return false
		}
	}
	return true
}

// abandon charges what was not answered with the time it has waited. In a closed loop
// that is the transaction under way; with a fixed rate, every arrival in what is measured.
func (l *loop) abandon() {
	now := time.Since(l.start)
	charge := func(since time.Duration) {
		if since >= l.from && since < l.to {
			l.result.Unserved++
			l.result.record(now - since)
		}
	}
	for _, c := range l.clients {
		if c.busy {
			charge(c.since)
		}
		if c.arrivals == nil {
			continue
		}
		for ; c.arrivals.next() < min(l.to, now); c.arrivals.advance() {
			charge(c.arrivals.next())
		}
	}
}

// arm sets the timer to the next arrival.
func (l *loop) arm(now time.Duration) error {
	if len(l.waiting) == 0 {
		return nil
	}
	next := l.waiting[0].arrivals.next()
	if next == l.armed {
		return nil
	}
	l.armed = next
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(next-now, time.Nanosecond)))}
	if err := unix.TimerfdSettime(l.timer, 0, &spec, nil); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	return nil
}
