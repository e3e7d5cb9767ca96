package intake

import (
	"log/slog"
	"sync"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
)

// Link is the connection to one listener. Its sends are queued and never block.
type Link struct {
	conn    *handoff.Conn
	handler Handler
	log     *slog.Logger
	wake    chan struct{}

	mu       sync.Mutex
	queue    linkQueue // guarded by mu
	sending  bool      // what was taken out of the queue has not all left; guarded by mu
	offers   offers    // guarded by mu
	forwards forwards  // guarded by mu
}

type linkQueue struct {
	hello    *handoff.Hello
	acks     []string
	refused  []handoff.SessionRef
	news     []news
	offers   []*offer
	cancels  []forward
	leaves   []string
	canceled []handoff.Canceled
	stopping bool
	closed   bool
}

// empty reports whether there is nothing to be sent, and will be nothing else than what is
// queued from now on.
func (q *linkQueue) empty() bool {
	return q.hello == nil && len(q.acks)+len(q.refused)+len(q.news)+len(q.offers)+len(q.cancels)+len(q.leaves)+len(q.canceled) == 0 && !q.stopping && !q.closed
}

// news of sessions, which are told in the order in which they came about.
type news struct {
	what    handoff.Type // TypeEnded, TypeBegan or TypeMoved
	session string
}

func newLink(c *handoff.Conn, h Handler, log *slog.Logger) *Link {
	return &Link{conn: c, handler: h, log: log, wake: make(chan struct{}, 1)}
}

// Ack takes ownership of a session. The handler is told whether it has it: Own
// when the acknowledgement has left, Disown when it could not.
func (k *Link) Ack(session string) {
	if !k.push(func(q *linkQueue) { q.acks = append(q.acks, session) }) {
		k.handler.Disown(session, k)
	}
}

// TryAck does it at once, if nothing is to be sent before it. After true the acknowledgement
// has left: the session is the router's, and the handler is not told so. After false nothing
// has happened. It does not block.
func (k *Link) TryAck(session string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.sending && k.queue.empty() && k.conn.TrySend(handoff.TypeAck, handoff.SessionRef{Session: session})
}

func (k *Link) greet(h handoff.Hello) { k.push(func(q *linkQueue) { q.hello = &h }) }

// Refuse leaves a session with its sender.
func (k *Link) Refuse(session string, why error) {
	k.log.Warn("refused a session", obs.KeySession, session, obs.KeyError, why)
	k.push(func(q *linkQueue) {
		q.refused = append(q.refused, handoff.SessionRef{Session: session, Reason: why.Error()})
	})
}

func (k *Link) stops() { k.push(func(q *linkQueue) { q.stopping = true }) }

func (k *Link) tell(what handoff.Type, session string) {
	k.push(func(q *linkQueue) { q.news = append(q.news, news{what, session}) })
}

// canceled answers a cancel request, if it has a number: those of earlier listeners have
// none.
func (k *Link) canceled(request uint64, found bool) {
	if request != 0 {
		k.push(func(q *linkQueue) { q.canceled = append(q.canceled, handoff.Canceled{Request: request, Found: found}) })
	}
}

// push adds to the queue. It reports false when the link is closed: then nobody looks
// at the queue again.
func (k *Link) push(add func(*linkQueue)) bool {
	k.mu.Lock()
	closed := k.queue.closed
	if !closed {
		add(&k.queue)
	}
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return !closed
}

func (k *Link) close() {
	k.push(func(q *linkQueue) { q.closed = true })
	k.conn.Close()
}

// take empties the queue, for what is in it to be sent.
func (k *Link) take() linkQueue {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sending = true
	q := k.queue
	k.queue = linkQueue{closed: q.closed}
	return q
}

// sent notes that what was taken has left.
func (k *Link) sent() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sending = false
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
		q.news = append(q.news, n.news...)
		q.offers = append(q.offers, n.offers...)
		q.cancels = append(q.cancels, n.cancels...)
		q.leaves = append(q.leaves, n.leaves...)
		q.canceled = append(q.canceled, n.canceled...)
		q.stopping = q.stopping || n.stopping
		greeted = greeted || q.hello != nil
		if n.closed {
			break
		}
		if !greeted {
			continue
		}
		if err := k.send(&q); err != nil {
			k.conn.Abandon() // the reading side sees it and closes the link
			continue
		}
		k.sent()
	}
	for _, s := range q.acks {
		k.handler.Disown(s, k)
	}
	for _, o := range q.offers {
		o.done(Kept)
	}
	for _, f := range q.cancels {
		f.over()
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
	if q.stopping {
		if err := k.conn.Send(handoff.TypeStopping, struct{}{}); err != nil {
			return err
		}
		q.stopping = false
	}
	if err := k.sendNews(q); err != nil {
		return err
	}
	for len(q.offers) > 0 {
		o := q.offers[0]
		q.offers = q.offers[1:]
		if err := k.sendOffer(o); err != nil {
			return err
		}
	}
	for len(q.cancels) > 0 {
		f := q.cancels[0]
		q.cancels = q.cancels[1:]
		if err := k.sendCancel(f); err != nil {
			return err
		}
	}
	if len(q.leaves) > 0 {
		if err := k.conn.Send(handoff.TypeLeave, handoff.Leave{Sessions: q.leaves}); err != nil {
			return err
		}
		q.leaves = nil
	}
	for len(q.canceled) > 0 {
		if err := k.conn.Send(handoff.TypeCanceled, q.canceled[0]); err != nil {
			return err
		}
		q.canceled = q.canceled[1:]
	}
	return nil
}

// sendNews sends the news, those of one kind that follow each other together.
func (k *Link) sendNews(q *linkQueue) error {
	for len(q.news) > 0 {
		what, n := q.news[0].what, 0
		var ids []string
		for n < len(q.news) && q.news[n].what == what {
			ids = append(ids, q.news[n].session)
			n++
		}
		// All three have the same body.
		if err := k.conn.Send(what, handoff.Ended{Sessions: ids}); err != nil {
			return err
		}
		q.news = q.news[n:]
	}
	return nil
}
