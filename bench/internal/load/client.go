package load

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

// client is one client at work. It belongs to one loop.
type client struct {
	// fd is its connection; writes is the one for what writes, if it has two, and at the
	// one that has the request under way.
	fd, writes, at int
	script         *workload.Script
	arrivals       *arrivals // nil in a closed loop
	request        workload.Request
	answer         answer
	partial        []byte // the start of a message
	// since is when the transaction was wanted, from the start of the run.
	since      time.Duration
	busy, dead bool
	stale      bool // of the transaction
	err        error
	statements int64 // of the transaction so far
}

func newClient(fd, writes, number int, o Options) *client {
	c := &client{fd: fd, writes: writes, at: fd, script: o.Workload.Script(o.Protocol, number, o.Seed, o.Rows)}
	if o.Rate > 0 {
		c.arrivals = newArrivals(o.Rate/float64(o.Clients), o.Seed, number)
	}
	return c
}

// begin starts a transaction that was wanted at a time.
func (c *client) begin(since time.Duration) {
	c.since, c.busy = since, true
	c.stale, c.err, c.statements = false, nil, 0
	c.send()
}

// send sends the next request.
func (c *client) send() {
	c.request = c.script.Next()
	c.answer = answer{ready: c.request.Ready, checks: c.request.Checks, want: c.request.Want}
	c.at = c.fd
	if c.request.Writes && c.writes > 0 {
		c.at = c.writes
	}
	// One request at a time is under way, and it is far smaller than a socket's buffer.
	n, err := unix.Write(c.at, c.request.Bytes)
	if err == nil && n < len(c.request.Bytes) {
		err = errors.New("the socket took only a part")
	}
	if err != nil {
		c.lose(fmt.Errorf("send a request: %w", err))
	}
}

// receive reads once from a connection into buf, which all clients of a loop share. It
// reports true when the transaction has ended.
func (c *client) receive(fd int, buf []byte) bool {
	n, err := unix.Read(fd, buf)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false
	case err != nil:
		c.lose(fmt.Errorf("read an answer: %w", err))
		return true
	case n == 0:
		c.lose(errors.New("the connection was closed"))
		return true
	case fd != c.at:
		c.lose(errors.New("the server spoke where it was asked nothing"))
		return true
	}
	b := buf[:n]
	if len(c.partial) > 0 {
		c.partial = append(c.partial, b...)
		b = c.partial
	}
	used := c.answer.read(b)
	c.partial = append(c.partial[:0], b[used:]...)
	if c.answer.lost != nil {
		c.lose(c.answer.lost)
		return true
	}
	if !c.busy || c.answer.ready > 0 {
		return false
	}
	c.statements += int64(c.request.Statements)
	c.stale = c.stale || c.answer.stale
	if c.err == nil {
		c.err = c.answer.err
	}
	if c.answer.checks && !c.answer.seen && c.err == nil {
		c.err = errors.New("the row that was written did not come back")
	}
	if c.request.Last {
		c.busy = false
		return true
	}
	c.send()
	return c.dead
}

// lose notes that the connection cannot be used any more.
func (c *client) lose(err error) {
	c.dead, c.busy = true, false
	if c.answer.err != nil { // what the server said last explains it
		err = c.answer.err
	}
	c.err = err
}
