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
// and then what runs is canceled. Both look alike until something is sent to it. One that has
// said goodbye does not wait for answers, and what is before that is executed whether it is
// there or not, unless others wait for its connection.

// knockAgain is how long a client that has closed its side is left alone before it is
// found out once more whether it is there, at first; later twice as long each time. Over
// TLS the relay does not notice at the first time.
const knockAgain = 250 * time.Millisecond

// maxGrace is how long what runs for a client that is gone after its goodbye keeps others
// waiting at most.
const maxGrace = time.Second

// maxLastWords is how much of what a client has left behind is looked at, in bytes.
const maxLastWords = 1 << 20

// goodbye is the message with which clients end a session.
var goodbye = []byte{wire.Terminate, 0, 0, 0, 4}

// hasEnded notes that the client has closed its side.
func (c *client) hasEnded() {
	if !c.ended {
		c.ended, c.endedAt = true, c.e.now
	}
}

// heardAll notes that all has been read that the client has sent before it closed its side.
func (c *client) heardAll() {
	c.deafen()
	if c.s.Phase() == session.Busy {
		c.knock()
	}
}

// deafen has nothing more read.
func (c *client) deafen() {
	c.hasEnded()
	c.spent = true
	c.watch(c.interest &^ (poll.In | poll.PeerClosed))
}

// hungUp deals with a client that has closed its side while it is not listened to.
func (c *client) hungUp() {
	c.hasEnded()
	c.watch(c.interest &^ poll.PeerClosed)
	switch phase := c.s.Phase(); {
	case len(c.unread) > 0 || poll.Readable(c.fd), // there is more to serve
		phase == session.Busy, phase == session.Queued, phase == session.Applying,
		phase == session.Settling, phase == session.Failing: // what runs again, too
		c.knock()
	case !c.s.Reads(): // settle sees to it otherwise
		c.broken = true
	}
}

// knock has the session send the client something, now and then for as long as it is
// answered; where it may have said goodbye, only while it is in the way.
func (c *client) knock() {
	pause := knockAgain
	switch wanted := c.inTheWay(); {
	case wanted && c.failed:
		c.broken = true
		return
	case wanted, !c.saidGoodbye() && len(c.unread) < maxLastWords:
		c.s.Knock()
		c.perform()
		if c.s.Phase() == session.Busy { // however long it has waited before
			pause <<= min(c.knocks, 20)
			c.knocks++
		}
	}
	c.e.timers.Set(&c.knocking, c.e.now.Add(pause), func() {
		c.knock()
		c.resume()
	})
}

// inTheWay reports whether the client has been gone for a while, if it is, and what runs for
// it has kept others waiting for as long.
func (c *client) inTheWay() bool {
	if c.s.Phase() != session.Busy {
		return false
	}
	since := c.e.now.Add(-min(maxGrace, c.e.cfg.Pool.AcquireTimeout.D()/4)) // they get the connection in time
	if c.endedAt.After(since) || c.started.After(since) {
		return false
	}
	for _, s := range c.conns {
		if s != nil && s.site.missed(since) {
			return true
		}
	}
	return false
}

// hasFailed deals with a connection that has failed. Its client has closed it with answers under
// way or unread, or is gone: what runs is canceled. But a client that has said goodbye does not
// wait for answers. A server notices no sooner than when it writes the next one, and has
// executed by then what that answers.
func (c *client) hasFailed() {
	if len(c.out) > 0 || !c.saidGoodbye() {
		c.broken = true
		return
	}
	c.deafen()
	_ = c.e.poller.Del(c.fd) // its failure would be reported all the time
	c.failed = true
	c.knock()
}

// saidGoodbye reports whether the last that the client has sent is its goodbye.
func (c *client) saidGoodbye() bool {
	for !c.spent && len(c.unread) < maxLastWords {
		n, st := c.recv()
		if st == poll.Again {
			break
		}
		switch {
		case st == poll.Closed:
			c.deafen()
		case len(c.unread) == 0:
			c.unread = c.e.keep(c.e.buf[:n])
		default:
			c.unread = append(c.unread, c.e.buf[:n]...)
		}
	}
	return bytes.HasSuffix(c.unread, goodbye)
}
