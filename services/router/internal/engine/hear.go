package engine

import (
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// maxUnsent is how many bytes of answers may wait for a client before nothing more of it is
// read: much of what it says is answered here, with no server that would be stopped.
const maxUnsent = 1 << 20

// listens reports whether the client's bytes are wanted now. While the server is
// slow to take what it was sent, or the client what it was answered, they are not.
func (c *client) listens() bool {
	if c.broken || !c.s.Reads() || len(c.out) > maxUnsent {
		return false
	}
	s := c.conns[c.s.Slot()]
	if s == nil {
		return true
	}
	return len(s.out) == 0 && !c.canceling()
}

// canceling reports whether a cancel request is under way that was meant for a statement
// which is over: the next one must not be there when it arrives.
func (c *client) canceling() bool {
	s := c.conns[c.s.Slot()]
	return s != nil && s.cancels > 0 && c.s.Phase() != session.Busy
}

// receive reads once.
func (c *client) receive() {
	n, st := c.recv()
	switch st {
	case poll.Again:
	case poll.Closed:
		c.heardAll()
	case poll.OK:
		c.feed(c.received(c.e.buf[:n]))
	}
}

// feed gives bytes to the session for as long as it makes use of them.
func (c *client) feed(b []byte) {
	c.feeding = true
	for len(b) > 0 && c.listens() {
		steps := c.s.Steps()
		used := c.s.FromClient(b)
		b = b[used:]
		c.perform()
		if used == 0 && c.s.Steps() == steps {
			break
		}
	}
	c.feeding = false
	if !c.closed {
		c.leave(b)
	}
}

// resume looks at unread bytes again, after the session has gone on.
func (c *client) resume() {
	if c.closed || c.closing || c.feeding || c.performing {
		return
	}
	for {
		steps := c.s.Steps()
		if len(c.unread) > 0 && c.listens() {
			c.feed(c.unread)
		}
		c.settle()
		if c.closed || c.closing || len(c.unread) == 0 || c.s.Steps() == steps {
			break
		}
	}
	if len(c.early) > 0 && !c.unsent() {
		c.cancelEarly()
	}
	if c.leaves {
		c.e.wouldLeave(c)
	}
}

// settle tells the session of a connection found broken on the way, and watches
// the client again if its bytes are wanted.
func (c *client) settle() {
	if c.spent && !c.feeding && !c.closed && !c.closing && len(c.out) == 0 && c.listens() {
		c.s.ClientDone() // all that is whole is served, and all answers have left
		c.perform()
	}
	for range 2 { // telling it may break the other one
		if c.broken && !c.closed && !c.closing {
			c.s.ClientGone()
			c.perform()
		}
		for slot, s := range c.conns {
			if s != nil && s.broken {
				c.s.ServerLost(session.Slot(slot))
				c.perform()
			}
		}
	}
	if !c.closed && !c.closing && !c.spent && c.interest&poll.In == 0 && c.listens() {
		c.reading(true)
	}
}
