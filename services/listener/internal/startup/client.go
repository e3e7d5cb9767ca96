package startup

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/tlsrelay"
)

// Conn is a client's socket, TCP or Unix.
type Conn interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// Client is a client's connection until somebody else gets it: its socket, and TLS
// over it from when the client has asked for it. Read and Write go through TLS then;
// deadlines are the socket's either way.
type Client struct {
	Conn
	secure *tls.Conn
	below  *tlsrelay.Carrier
	// waiting is since when the client is waited for, in nanoseconds since the epoch; 0
	// while it is not. waited is how long it was waited for before, in nanoseconds.
	waiting, waited atomic.Int64
}

// NewClient takes ownership of a socket.
func NewClient(c Conn) *Client {
	client := &Client{}
	client.Conn = &watched{c, client}
	return client
}

// watched notes when its client is waited for.
type watched struct {
	Conn
	client *Client
}

// Read implements net.Conn.
func (w *watched) Read(b []byte) (int, error) {
	defer w.client.await()()
	return w.Conn.Read(b)
}

// await notes that the client is waited for until the function it gives is called.
func (c *Client) await() (over func()) {
	began := time.Now()
	c.waiting.Store(began.UnixNano())
	return func() {
		c.waiting.Store(0)
		c.waited.Add(int64(time.Since(began)))
	}
}

// Owes says whether the client owes its next bytes, and for how long it has been waited
// for in all: who sends a byte now and then has not been quick. It may be called from any
// goroutine.
func (c *Client) Owes(now time.Time) (waited time.Duration, owes bool) {
	since := c.waiting.Load()
	if since == 0 {
		return 0, false
	}
	return time.Duration(c.waited.Load()) + now.Sub(time.Unix(0, since)), true
}

// Secure gives the TLS connection and what lies below it, or nils.
func (c *Client) Secure() (*tls.Conn, *tlsrelay.Carrier) { return c.secure, c.below }

// Local says that the client came over a Unix socket.
func (c *Client) Local() bool {
	_, local := c.RemoteAddr().(*net.UnixAddr)
	return local
}

// Read implements net.Conn.
func (c *Client) Read(b []byte) (int, error) {
	if c.secure != nil {
		return c.secure.Read(b)
	}
	return c.Conn.Read(b)
}

// Write implements net.Conn.
func (c *Client) Write(b []byte) (int, error) {
	if c.secure != nil {
		return c.secure.Write(b)
	}
	return c.Conn.Write(b)
}

// Close implements net.Conn. Over TLS the client is told (close_notify).
func (c *Client) Close() error {
	if c.secure != nil {
		return c.secure.Close()
	}
	return c.Conn.Close()
}

// HandshakeError reports a client with which TLS did not come about.
type HandshakeError struct{ err error }

// Error implements error.
func (e *HandshakeError) Error() string { return "negotiate TLS: " + e.err.Error() }

// Unwrap gives the cause.
func (e *HandshakeError) Unwrap() error { return e.err }

// encrypt makes the connection a TLS connection. Whatever the client has sent already
// is taken for the beginning of its handshake, or it fails: nothing that came in the
// clear is ever read as if it had not (CVE-2021-23222).
func (c *Client) encrypt(cfg *tls.Config) error {
	below := tlsrelay.Carry(c.Conn)
	t := tls.Server(below, cfg)
	if err := t.Handshake(); err != nil {
		return &HandshakeError{err}
	}
	c.secure, c.below = t, below
	return nil
}

// peek gives the client's first byte and leaves it where it is.
func (c *Client) peek() (byte, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("look at the first byte: %w", err)
	}
	defer c.await()()
	var b [1]byte
	var n int
	var rerr error
	if err := raw.Read(func(fd uintptr) bool {
		n, _, rerr = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return !errors.Is(rerr, unix.EAGAIN) && !errors.Is(rerr, unix.EINTR)
	}); err != nil {
		return 0, fmt.Errorf("look at the first byte: %w", err)
	}
	if rerr != nil || n == 0 {
		return 0, ErrLeft
	}
	return b[0], nil
}
