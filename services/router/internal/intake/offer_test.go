package intake

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// parker connects a listener that takes sessions.
func (st *stage) parker(t *testing.T) *listener {
	t.Helper()
	l := st.dial(t)
	if err := l.Send(handoff.TypeHello, handoff.Hello{V: handoff.ProtocolVersion, Service: rundir.Listener, ID: "1", Parks: true}); err != nil {
		t.Fatal(err)
	}
	var h handoff.Hello
	l.expect(handoff.TypeHello, &h)
	st.await(t, "the router hears of a way out", func() bool { return st.wayOut > 0 })
	return l
}

// given is a session that has been offered, with the client's end of its socket and a
// server's.
type given struct {
	fds      []int
	client   int
	server   int
	outcomes chan Outcome
}

// offer offers a session over the server's way out.
func (st *stage) offer(t *testing.T, id string) given {
	t.Helper()
	way := st.s.Way()
	if way == nil {
		t.Fatal("no listener takes sessions")
	}
	return st.offerBy(t, way, id, func(*handoff.Record) {})
}

func (st *stage) offerBy(t *testing.T, way *Link, id string, change func(*handoff.Record)) given {
	t.Helper()
	g := given{outcomes: make(chan Outcome, 2)}
	for _, end := range []*int{&g.client, &g.server} {
		near, far := handofftest.Ends(t)
		*end = near
		g.fds = append(g.fds, far)
	}
	rec := &handoff.Record{Session: id, User: "u", Database: "d", Cancel: handoff.CancelKey{PID: 1, Secret: []byte{1}}, Live: &handoff.Live{Status: "T", Leases: []handoff.Lease{{Backend: "p0"}}}}
	change(rec)
	way.Offer(rec, g.fds, func(o Outcome) { g.outcomes <- o })
	return g
}

// ends waits for the outcome, and sees that the sender's descriptors are still its own.
func (g *given) ends(t *testing.T, want Outcome) {
	t.Helper()
	select {
	case o := <-g.outcomes:
		if o != want {
			t.Fatalf("outcome %d, want %d", o, want)
		}
	case <-time.After(patience):
		t.Fatal("the offer does not end")
	}
	for _, fd := range g.fds {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			t.Errorf("descriptor %d is not the sender's any more: %v", fd, err)
		}
		handoff.CloseFDs([]int{fd})
	}
	select {
	case o := <-g.outcomes:
		t.Errorf("a second outcome: %d", o)
	default:
	}
}

func (l *listener) receiveSession() *handoff.Message {
	l.t.Helper()
	m, err := l.Receive()
	if err != nil || m.Type != handoff.TypeSession || len(m.FDs) != 2 {
		l.t.Fatalf("received %+v, %v; want a session with two descriptors", m, err)
	}
	return m
}

func TestOfferTaken(t *testing.T) {
	st := newStage(t)
	l := st.parker(t)
	g := st.offer(t, "s1")
	m := l.receiveSession()
	rec, err := handoff.DecodeRecord(m.Body)
	if err != nil || rec.Session != "s1" {
		t.Fatalf("%+v, %v", rec, err)
	}
	if err := l.Send(handoff.TypeAck, handoff.SessionRef{Session: "s1"}); err != nil {
		t.Fatal(err)
	}
	g.ends(t, Taken)
	// The listener's copies live on alone.
	if _, err := unix.Write(m.FDs[0], []byte("x")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	if n, err := unix.Read(g.client, b); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	handoff.CloseFDs(m.FDs)
	abandoned(t, g.client)
	abandoned(t, g.server)
}

// A listener that refuses leaves the session with the router, and is not asked again at
// once.
func TestOfferRefused(t *testing.T) {
	st := newStage(t)
	l := st.parker(t)
	g := st.offer(t, "s1")
	handoff.CloseFDs(l.receiveSession().FDs)
	if err := l.Send(handoff.TypeRefuse, handoff.SessionRef{Session: "s1", Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	g.ends(t, Kept)
	if st.s.Way() != nil {
		t.Error("the listener is asked again at once")
	}
}

// A listener that dies with the session in its hands has not taken it: whatever it had
// acknowledged would have been read.
func TestOfferWhenTheListenerDies(t *testing.T) {
	st := newStage(t)
	l := st.parker(t)
	g := st.offer(t, "s1")
	handoff.CloseFDs(l.receiveSession().FDs)
	l.Close()
	g.ends(t, Kept)
}

// An acknowledgement counts that was sent just before the end.
func TestOfferAcknowledgedAtTheLastMoment(t *testing.T) {
	st := newStage(t)
	l := st.parker(t)
	g := st.offer(t, "s1")
	m := l.receiveSession()
	defer handoff.CloseFDs(m.FDs)
	if err := l.Send(handoff.TypeAck, handoff.SessionRef{Session: "s1"}); err != nil {
		t.Fatal(err)
	}
	l.Close()
	g.ends(t, Taken)
}

// A listener that says nothing is given up: it cannot acknowledge any more from then on.
func TestOfferUnanswered(t *testing.T) {
	st := newStage(t)
	l := st.parker(t)
	g := st.offer(t, "s1")
	m := l.receiveSession()
	defer handoff.CloseFDs(m.FDs)
	st.s.mu.Lock()
	for k := range st.s.links { // as if the time were up
		k.mu.Lock()
		o := k.offers.open["s1"]
		k.mu.Unlock()
		k.insist(o, time.Now())
	}
	st.s.mu.Unlock()
	l.closed()
	if err := l.Send(handoff.TypeAck, handoff.SessionRef{Session: "s1"}); err == nil {
		t.Error("the listener could still acknowledge")
	}
	l.Close()
	g.ends(t, Kept)
}

// Where it cannot be known what the listener has said, it may have the session: the
// router closes its copies.
func TestOfferAnsweredUnreadably(t *testing.T) {
	st := newStage(t)
	l := st.parker(t)
	g := st.offer(t, "s1")
	handoff.CloseFDs(l.receiveSession().FDs)
	if _, err := l.raw.Write([]byte{0, 0, 0, 2, 'A', '{'}); err != nil {
		t.Fatal(err)
	}
	g.ends(t, Unknown)
}

// A record that cannot be encoded, or is too long, is not sent.
func TestOfferUnsendable(t *testing.T) {
	st := newStage(t)
	l := st.parker(t)
	g := st.offerBy(t, st.s.Way(), "s1", func(r *handoff.Record) { r.Live.Channels = []string{"caf\xe9"} })
	g.ends(t, Unsendable)
	g = st.offerBy(t, st.s.Way(), "s2", func(r *handoff.Record) { r.Live.Prepared = []handoff.Prepared{{Text: make([]byte, handoff.MaxRecord)}} })
	g.ends(t, Unsendable)
	g = st.offer(t, "s3") // the connection is as good as before
	handoff.CloseFDs(l.receiveSession().FDs)
	l.Close()
	g.ends(t, Kept)
}

// Descriptors that the kernel does not pass end the connection, not the session.
func TestOfferOfBadDescriptors(t *testing.T) {
	st := newStage(t)
	st.parker(t)
	outcomes := make(chan Outcome, 1)
	rec := &handoff.Record{Session: "s1", User: "u", Database: "d", Live: &handoff.Live{}}
	st.s.Way().Offer(rec, []int{1 << 20}, func(o Outcome) { outcomes <- o })
	select {
	case o := <-outcomes:
		if o != Kept {
			t.Errorf("outcome %d", o)
		}
	case <-time.After(patience):
		t.Fatal("the offer does not end")
	}
}

// An offer over a link that has ended, or ends before it is sent, is one nobody took.
func TestOfferAfterTheEnd(t *testing.T) {
	st := newStage(t)
	l := st.parker(t)
	way := st.s.Way()
	l.Close()
	g := st.offerBy(t, way, "s1", func(*handoff.Record) {})
	g.ends(t, Kept)
}

// News of sessions comes in order, and not to the listener that knows it already.
func TestNewsOfSessions(t *testing.T) {
	st := newStage(t)
	l := st.parker(t)
	from := st.s.Way()
	other, _ := st.connect(t)
	st.s.Began("a", from)
	st.s.Began("b", from)
	st.s.Moved("a", from)
	st.s.Began("a", from)
	st.s.Ended("b")
	st.s.Stopping()
	heard := map[string]string{}
	for heard["b"] != "E" {
		m, err := other.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if m.Type == handoff.TypeStopping {
			continue
		}
		var e handoff.Ended
		if err := m.Unmarshal(&e); err != nil {
			t.Fatal(err)
		}
		for _, s := range e.Sessions {
			heard[s] = string(m.Type)
		}
	}
	if heard["a"] != "B" {
		t.Errorf("the last that is said of a is %q", heard["a"])
	}
	for {
		m, err := l.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if m.Type == handoff.TypeEnded {
			break
		}
		if m.Type != handoff.TypeStopping {
			t.Errorf("the listener by which they come and go is told %q", m.Type)
		}
	}
}
