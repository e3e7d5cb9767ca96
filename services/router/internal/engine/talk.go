package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// talk is a connection of the router's own to one server, on which it asks for what no
// client has. It is made when its owner wants it and then kept; where it failed, it is not
// made again before a pause is over, which doubles with each failure. Its engine is set
// before anything is called.
type talk struct {
	pipe
	owner talker
	// open says that there is a connection, ready that the server has answered what it was
	// asked first, connecting that one is being made.
	open, ready, connecting bool
	pause                   poll.Timer
	backoff                 time.Duration
}

// talker is who asks.
type talker interface {
	// told takes a message of the server, of which body is what is behind its header. After
	// an error the connection is given up.
	told(typ byte, body []byte) error
	// fail gives the connection up, or notes that none could be made.
	fail(why error)
}

// mayConnect reports whether a connection can be made now.
func (t *talk) mayConnect() bool { return !t.connecting && !t.pause.Active() }

// connect has dial make a connection on a goroutine of its own. The loop then gives that
// to done, or why there is none; done adopts the connection or closes it.
func (t *talk) connect(dial func() (*upstream.Made, error), done func(*upstream.Made, error)) {
	t.connecting = true
	e := t.e
	e.work.Go(func() {
		m, err := dial()
		posted := e.Post(func() {
			t.connecting = false
			done(m, err)
		})
		if !posted && err == nil {
			poll.Hangup(m.FD)
		}
	})
}

// adopt takes a connection, which is closed if that is impossible.
func (t *talk) adopt(fd int, owner talker) error {
	t.pipe, t.owner = pipe{e: t.e}, owner
	if err := t.pipe.open(t.e, fd, t, poll.In); err != nil {
		poll.Hangup(fd)
		return err
	}
	t.open, t.ready = true, false
	return nil
}

// say sends a question.
func (t *talk) say(question []byte) {
	t.send(question)
	if t.broken {
		t.owner.fail(errClosed)
	}
}

// Why a talk is over.
var (
	errClosed    = errors.New("connection closed")
	errRestarted = errors.New("the server has restarted")
	errUnasked   = errors.New("an answer to nothing")
)

// refusing is the error of a question that the server has answered with an ErrorResponse.
func refusing(body []byte) error {
	return fmt.Errorf("the server refused the question: %s", refusal(body))
}

// refusal writes an ErrorResponse for the log.
func refusal(body []byte) string {
	var e pgproto3.ErrorResponse
	if err := e.Decode(body); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %s: %s", e.SeverityUnlocalized, e.Code, e.Message)
}

// event handles readiness of the socket.
func (t *talk) event(ev poll.Event) {
	if ev.Writable() && len(t.out) > 0 {
		t.flush()
	}
	if !ev.Readable() && !ev.Gone() {
		return
	}
	n, st := t.recv()
	switch st {
	case poll.Again:
		return
	case poll.Closed:
		t.owner.fail(errClosed)
		return
	case poll.OK:
	}
	b := t.received(t.e.buf[:n])
	for t.open {
		typ, total, err := wire.Header(b)
		if err == nil && (total == 0 || len(b) < total) {
			t.leave(b)
			return
		}
		if err == nil {
			err = t.owner.told(typ, b[wire.HeaderSize:total])
			b = b[total:]
		}
		if err != nil {
			t.owner.fail(err)
			return
		}
	}
}

// hangup closes the connection if there is one.
func (t *talk) hangup() {
	if t.open {
		t.pipe.hangup()
	}
	t.open, t.ready = false, false
}

// again calls f after a pause, at least from and at most upTo, before which no connection
// is made.
func (t *talk) again(from, upTo time.Duration, f func()) {
	t.backoff = min(max(2*t.backoff, from), upTo)
	t.e.timers.Set(&t.pause, t.e.now.Add(t.backoff), f)
}
