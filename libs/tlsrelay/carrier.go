package tlsrelay

import (
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Carrier is the socket below a TLS connection. Writing to a peer that does not
// read blocks for as long as somebody holds the far end of the relay, and no longer
// than lastWordTimeout from then on.
//
// It cannot be done with a deadline of the TLS connection: one that has expired
// leaves it unusable, and a client may well pause for an hour.
type Carrier struct {
	net.Conn
	// near is set by New, before which deadlines are the caller's.
	near *net.UnixConn
	// until is the write deadline in force once near is set. Only the writer uses it.
	until time.Time
}

const (
	// lastWordTimeout is how long a peer may take to read what it was sent last. It is
	// also how often a blocked writer looks whether anybody is left.
	lastWordTimeout = 5 * time.Second
	// renewal is how much of the deadline is always left when a write begins.
	renewal = 4 * time.Second
)

// Carry wraps a socket for the TLS connection that is to be made on it.
func Carry(c net.Conn) *Carrier { return &Carrier{Conn: c} }

// Write implements net.Conn.
func (c *Carrier) Write(b []byte) (int, error) {
	if c.near == nil {
		return c.Conn.Write(b)
	}
	for n, last := 0, false; ; {
		if now := time.Now(); c.until.Sub(now) < renewal {
			c.until = now.Add(lastWordTimeout)
			if err := c.SetWriteDeadline(c.until); err != nil {
				return n, err
			}
		}
		m, err := c.Conn.Write(b[n:])
		n += m
		if !errors.Is(err, os.ErrDeadlineExceeded) || last {
			return n, err
		}
		last = c.orphaned()
	}
}

// orphaned says that nobody holds the far end any more.
func (c *Carrier) orphaned() bool {
	raw, err := c.near.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	if err := raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		_, err := unix.Poll(p, 0)
		gone = err == nil && p[0].Revents&(unix.POLLHUP|unix.POLLRDHUP|unix.POLLERR) != 0
	}); err != nil {
		return true // closed
	}
	return gone
}
