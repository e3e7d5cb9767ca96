package intake

import (
	"errors"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
)

// Outcome is what became of an offered session.
type Outcome uint8

const (
	// Taken: it is the listener's, and the sender closes its copies of the descriptors.
	Taken Outcome = iota
	// Kept: it is the sender's as before.
	Kept
	// Unsendable: the same, and it would be so with any listener.
	Unsendable
	// Unknown: the listener has said something that cannot be read. If it has the session,
	// that goes on there once the sender has closed its copies, without a shutdown.
	Unknown
)

// offer is a session for the listener to take.
type offer struct {
	rec  *handoff.Record
	fds  []int
	done func(Outcome)
}

// offers are the sessions on their way to a listener.
type offers struct {
	// parks says that the listener takes sessions, tells that it says when one has arrived.
	parks, tells bool
	// open are those it has not answered, by session.
	open map[string]*offer
	// heard is when it said something last, unwilling until when it is not to be asked.
	heard, unwilling time.Time
	// over says that there are no more.
	over bool
}

const (
	// silence is how long a listener that owes an answer may say nothing at all.
	silence = 5 * time.Second
	// sulk is for how long a listener is not asked again that has refused a session.
	sulk = time.Second
)

// Offer offers a session with its client's descriptor, and those of its leases, to the
// listener; from any goroutine. The descriptors stay the caller's, who must neither use
// nor close them before done is called, once, from whichever goroutine. It must not
// block.
func (k *Link) Offer(rec *handoff.Record, fds []int, done func(Outcome)) {
	if !k.push(func(q *linkQueue) { q.offers = append(q.offers, &offer{rec, fds, done}) }) {
		done(Kept)
	}
}

// sendOffer sends an offer. Whatever happens, done is called for it later.
func (k *Link) sendOffer(o *offer) error {
	b, err := o.rec.Encode()
	if err != nil {
		o.done(Unsendable)
		return nil //nolint:nilerr // the link is well
	}
	k.mu.Lock()
	if k.offers.over {
		k.mu.Unlock()
		o.done(Kept)
		return nil
	}
	if k.offers.open == nil {
		k.offers.open = map[string]*offer{}
	}
	k.offers.open[o.rec.Session] = o
	k.mu.Unlock()
	time.AfterFunc(silence, func() { k.insist(o, time.Now().Add(-silence)) })
	err = k.conn.SendEncoded(b, o.fds...)
	if errors.Is(err, handoff.ErrCrowded) {
		k.settle(handoff.SessionRef{Session: o.rec.Session, Alone: true}, Kept)
		return nil
	}
	return err
}

// insist gives a listener up that has said nothing since a time and owes the answer to
// an offer.
func (k *Link) insist(o *offer, since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.offers.open[o.rec.Session] != o:
	case k.offers.heard.After(since):
		left := time.Until(k.offers.heard.Add(silence))
		time.AfterFunc(max(left, time.Millisecond), func() { k.insist(o, time.Now().Add(-silence)) })
	default:
		k.conn.Abandon()
	}
}

// settle ends an offer. A refusal that is not for a reason of the session's own holds for
// the others, too.
func (k *Link) settle(ref handoff.SessionRef, outcome Outcome) {
	k.mu.Lock()
	o := k.offers.open[ref.Session]
	delete(k.offers.open, ref.Session)
	if outcome == Kept && !ref.Alone {
		k.offers.unwilling = time.Now().Add(sulk)
	}
	k.mu.Unlock()
	if o != nil {
		o.done(outcome)
	}
}

// hears notes that the listener has said something.
func (k *Link) hears() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.offers.heard = time.Now()
}

// endOffers ends those that are open, after the last message of the listener.
func (k *Link) endOffers(err error) {
	outcome := Unknown
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET) {
		outcome = Kept // all that it has sent has been read
	}
	k.mu.Lock()
	open := k.offers.open
	k.offers.open, k.offers.over = nil, true
	k.mu.Unlock()
	for _, o := range open {
		o.done(outcome)
	}
}

// Tells reports whether the listener says when a session that it has taken has arrived.
func (k *Link) Tells() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.offers.tells
}

// load is how many offers are open, -1 if the listener is not to be asked.
func (k *Link) load(now time.Time) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.offers.parks || k.offers.over || k.queue.closed || now.Before(k.offers.unwilling) {
		return -1
	}
	return len(k.offers.open) + len(k.queue.offers)
}

// Way gives the link to the listener that has the least to do with sessions of this
// router, nil if none takes any.
func (s *Server) Way() *Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var best *Link
	least := 0
	for k := range s.links {
		if n := k.load(now); n >= 0 && (best == nil || n < least) {
			best, least = k, n
		}
	}
	return best
}
