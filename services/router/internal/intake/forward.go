package intake

import "github.com/pgpilot/pgpilot/libs/handoff"

// What comes for a session that has just been given away goes the same way.

// forward is a cancel request for such a session.
type forward struct {
	key  handoff.CancelKey
	over func()
}

// forwards are the cancel requests that the listener has been sent.
type forwards struct {
	// answers says that it tells when one is over.
	answers bool
	// open are those that are not, by number; last is the last number.
	open map[uint64]func()
	last uint64
	// ended says that no more answers come.
	ended bool
}

// Cancel asks the listener for the cancellation of what a session runs that has left by
// way of this link, and calls over once that is done with: from any goroutine, and maybe
// at once.
func (k *Link) Cancel(key handoff.CancelKey, over func()) {
	if !k.push(func(q *linkQueue) { q.cancels = append(q.cancels, forward{key, over}) }) {
		over()
	}
}

// Leave asks the listener to have a session end that has left by way of this link.
func (k *Link) Leave(session string) {
	k.push(func(q *linkQueue) { q.leaves = append(q.leaves, session) })
}

// sendCancel sends a request on. Whatever happens, it is over at some time. Listeners of
// earlier releases do not say when.
func (k *Link) sendCancel(f forward) error {
	var number uint64
	k.mu.Lock()
	if k.forwards.answers && !k.forwards.ended {
		if k.forwards.open == nil {
			k.forwards.open = map[uint64]func(){}
		}
		k.forwards.last++
		number = k.forwards.last
		k.forwards.open[number] = f.over
	}
	k.mu.Unlock()
	err := k.conn.Send(handoff.TypeCancel, handoff.Cancel{CancelKey: f.key, Request: number})
	if number == 0 {
		f.over()
	}
	return err
}

// canceledThere ends the request with the number.
func (k *Link) canceledThere(number uint64) {
	k.mu.Lock()
	over := k.forwards.open[number]
	delete(k.forwards.open, number)
	k.mu.Unlock()
	if over != nil {
		over()
	}
}

// endForwards ends all, after the last message of the listener.
func (k *Link) endForwards() {
	k.mu.Lock()
	open := k.forwards.open
	k.forwards.open, k.forwards.ended = nil, true
	k.mu.Unlock()
	for _, over := range open {
		over()
	}
}
