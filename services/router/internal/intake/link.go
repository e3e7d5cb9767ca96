package intake

import (
	"sync"

	"github.com/pgpilot/pgpilot/libs/handoff"
)

// Link is the connection to one listener. Its sends are queued and never block.
type Link struct {
	conn *handoff.Conn
	wake chan struct{}

	mu    sync.Mutex
	queue linkQueue // guarded by mu
}

type linkQueue struct {
	hello   *handoff.Hello
	acks    []string
	refused []handoff.SessionRef
	ended   []string
	closed  bool
}

func newLink(c *handoff.Conn) *Link {
	return &Link{conn: c, wake: make(chan struct{}, 1)}
}

// Ack takes ownership of a session.
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

// write sends what is queued until the link closes. A failed send closes the
// connection, which ends the reading side too.
func (k *Link) write() {
	for range k.wake {
		k.mu.Lock()
		q := k.queue
		k.queue = linkQueue{closed: q.closed}
		k.mu.Unlock()
		if q.closed {
			return
		}
		if err := k.send(&q); err != nil {
			k.conn.Close()
		}
	}
}

func (k *Link) send(q *linkQueue) error {
	if q.hello != nil {
		if err := k.conn.Send(handoff.TypeHello, q.hello); err != nil {
			return err
		}
	}
	for _, s := range q.acks {
		if err := k.conn.Send(handoff.TypeAck, handoff.SessionRef{Session: s}); err != nil {
			return err
		}
	}
	for _, r := range q.refused {
		if err := k.conn.Send(handoff.TypeRefuse, r); err != nil {
			return err
		}
	}
	if len(q.ended) > 0 {
		return k.conn.Send(handoff.TypeEnded, handoff.Ended{Sessions: q.ended})
	}
	return nil
}
