package engine

import (
	"bytes"
	"time"

	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// What a client has sent before it closes its side is served, and answered as far as it
// reads, as by a server. With nothing behind what runs, it may as well be gone altogether,
// and then what runs is canceled. Both look alike until something is sent to it.

// knockAgain is how long a client that has closed its side is left alone before it is
// found out once more whether it is there, at first; later twice as long each time. Over
// TLS the relay does not notice at the first time.
const knockAgain = 250 * time.Millisecond

// maxLastWords is how much of what a client has left behind is looked at, in bytes, once its
// connection has failed.
const maxLastWords = 1 << 20

// goodbye is the message with which clients end a session.
var goodbye = []byte{wire.Terminate, 0, 0, 0, 4}

// heardAll notes that all has been read that the client has sent before it closed its side.
func (c *client) heardAll() {
	c.deafen()
	if c.s.Phase() == session.Busy && !bytes.HasSuffix(c.unread, goodbye) {
		c.knock()
	}
}

// deafen has nothing more read.
func (c *client) deafen() {
	c.ended, c.spent = true, true
	c.watch(c.interest &^ (poll.In | poll.PeerClosed))
}

// hungUp deals with a client that has closed its side while it is not listened to.
func (c *client) hungUp() {
	c.ended = true
	c.watch(c.interest &^ poll.PeerClosed)
	switch phase := c.s.Phase(); {
	case len(c.unread) > 0 || poll.Readable(c.fd), // there is more to serve
		phase == session.Busy, phase == session.Queued, phase == session.Applying:
		c.knock()
	case !c.s.Reads(): // settle sees to it otherwise
		c.broken = true
	}
}

// knock has the session send the client something, now and then for as long as it is
// answered; not as long as it may have said goodbye, since what is before that is to be executed.
func (c *client) knock() {
	if !c.saidGoodbye() && len(c.unread) < maxLastWords {
		c.s.Knock()
		c.perform()
	}
	c.e.timers.Set(&c.knocking, c.e.now.Add(knockAgain<<min(c.knocks, 20)), func() {
		if c.s.Phase() == session.Busy { // however long it has waited before
			c.knocks++
		}
		c.knock()
		c.resume()
	})
}

// failed deals with a connection that has failed. Its client has closed it with answers under way
// or unread, or is gone: what runs is canceled. But a client that has said goodbye does not
// wait for answers. A server notices no sooner than when it writes the next one, and has
// executed by then what that answers.
func (c *client) failed() {
	if len(c.out) > 0 || !c.saidGoodbye() {
		c.broken = true
		return
	}
	c.deafen()
	_ = c.e.poller.Del(c.fd) // its failure would be reported all the time
}

// saidGoodbye reports whether the last that the client has sent is its goodbye.
func (c *client) saidGoodbye() bool {
	for !c.spent && len(c.unread) < maxLastWords {
		n, st := c.recv()
		if st != poll.OK {
			break
		}
		if len(c.unread) == 0 {
			c.unread = c.e.keep(c.e.buf[:n])
			continue
		}
		c.unread = append(c.unread, c.e.buf[:n]...)
	}
	return bytes.HasSuffix(c.unread, goodbye)
}
