package intake

import (
	"sync"

	"github.com/pgpilot/pgpilot/libs/handoff"
)

// Link is the connection to one listener. Its sends are queued and never block.
type Link struct {
	conn    *handoff.Conn
	handler Handler
	wake    chan struct{}

	mu    sync.Mutex
	queue linkQueue // guarded by mu
}

type linkQueue struct {
	hello    *handoff.Hello
	acks     []string
	refused  []handoff.SessionRef
	ended    []string
	canceled []handoff.Canceled
	closed   bool
}

func newLink(c *handoff.Conn, h Handler) *Link {
	return &Link{conn: c, handler: h, wake: make(chan struct{}, 1)}
}

// Ack takes ownership of a session. The handler is told whether it has it: Own
// when the acknowledgement has left, Disown when it could not.
func (k *Link) Ack(session string) {
	k.push(func(q *linkQueue) { q.acks = append(q.acks, session) })
}

func (k *Link) greet(h handoff.Hello) { k.push(func(q *linkQueue) { q.hello = &h }) }

func (k *Link) refuse(session, why string) {
	k.push(func(q *linkQueue) { q.refused = append(q.refused, handoff.SessionRef{Session: session, Reason: why}) })
}

func (k *Link) ended(session string) {
	k.push(func(q *linkQueue) { q.ended = append(q.ended, session) })
}

// canceled answers a cancel request, if it has a number: those of earlier listeners have
// none.
func (k *Link) canceled(request uint64, found bool) {
	if request != 0 {
		k.push(func(q *linkQueue) { q.canceled = append(q.canceled, handoff.Canceled{Request: request, Found: found}) })
	}
}

func (k *Link) push(add func(*linkQueue)) {
	k.mu.Lock()
	add(&k.queue)
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *Link) close() {
	k.push(func(q *linkQueue) { q.closed = true })
	k.conn.Close()
}

// take empties the queue.
func (k *Link) take() linkQueue {
	k.mu.Lock()
	defer k.mu.Unlock()
	q := k.queue
	k.queue = linkQueue{closed: q.closed}
	return q
}

// write sends what is queued until the link closes. Nothing is sent before the
// greeting. A failed send closes the connection, which ends the reading side too.
// Sessions whose acknowledgement has not left by then stay with the listener.
func (k *Link) write() {
	var q linkQueue // not sent yet
	greeted := false
	for range k.wake {
		n := k.take()
		if n.hello != nil {
			q.hello = n.hello
		}
		q.acks = append(q.acks, n.acks...)
		q.refused = append(q.refused, n.refused...)
		q.ended = append(q.ended, n.ended...)
		q.canceled = append(q.canceled, n.canceled...)
		greeted = greeted || q.hello != nil
		if n.closed {
			break
		}
		if !greeted {
			continue
		}
		if err := k.send(&q); err != nil {
			k.conn.Close() // the reading side sees it and closes the link
		}
	}
	for _, s := range q.acks {
		k.handler.Disown(s, k)
	}
}

// send sends and removes from q, up to the first failure.
func (k *Link) send(q *linkQueue) error {
	if q.hello != nil {
		if err := k.conn.Send(handoff.TypeHello, q.hello); err != nil {
			return err
		}
		q.hello = nil
	}
	for len(q.acks) > 0 {
		if err := k.conn.Send(handoff.TypeAck, handoff.SessionRef{Session: q.acks[0]}); err != nil {
			return err
		}
		k.handler.Own(q.acks[0], k)
		q.acks = q.acks[1:]
	}
	for len(q.refused) > 0 {
		if err := k.conn.Send(handoff.TypeRefuse, q.refused[0]); err != nil {
			return err
		}
		q.refused = q.refused[1:]
	}
	if len(q.ended) > 0 {
		if err := k.conn.Send(handoff.TypeEnded, handoff.Ended{Sessions: q.ended}); err != nil {
			return err
		}
		q.ended = nil
	}
	for len(q.canceled) > 0 {
		if err := k.conn.Send(handoff.TypeCanceled, q.canceled[0]); err != nil {
			return err
		}
		q.canceled = q.canceled[1:]
	}
	return nil
}
