package intake

import (
	"slices"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// answering connects a listener that takes sessions and answers cancel requests, and gives
// the router's end.
func (st *stage) answering(t *testing.T) (*listener, *Link) {
	t.Helper()
	l := st.dial(t)
	if err := l.Send(handoff.TypeHello, handoff.Hello{V: handoff.ProtocolVersion, Service: rundir.Listener, ID: "1", Parks: true, Answers: true}); err != nil {
		t.Fatal(err)
	}
	var h handoff.Hello
	l.expect(handoff.TypeHello, &h)
	st.await(t, "the router hears of a way out", func() bool { return st.wayOut > 0 })
	return l, st.s.Way()
}

// request sends a cancel request on and gives what its end closes.
func request(way *Link, pid uint32) chan struct{} {
	over := make(chan struct{})
	way.Cancel(handoff.CancelKey{PID: pid, Secret: []byte{1}}, func() { close(over) })
	return over
}

func ends(t *testing.T, over chan struct{}) {
	t.Helper()
	select {
	case <-over:
	case <-time.After(patience):
		t.Fatal("the request does not end")
	}
}

func goesOn(t *testing.T, over chan struct{}) {
	t.Helper()
	select {
	case <-over:
		t.Error("the request is over already")
	default:
	}
}

// A cancel request that follows its session is over when the listener says so.
func TestForwards(t *testing.T) {
	st := newStage(t)
	l, way := st.answering(t)
	one, two := request(way, 1), request(way, 2)
	var requests [2]handoff.Cancel
	for i := range requests {
		l.expect(handoff.TypeCancel, &requests[i])
		if requests[i].PID != uint32(i+1) || requests[i].Request == 0 {
			t.Fatalf("%+v", requests[i])
		}
	}
	if err := l.Send(handoff.TypeCanceled, handoff.Canceled{Request: requests[1].Request}); err != nil {
		t.Fatal(err)
	}
	ends(t, two)
	goesOn(t, one)
	l.Close() // it says no more
	ends(t, one)
	ends(t, request(way, 3))
}

// Listeners of earlier releases do not say when a request is over.
func TestForwardsToAnEarlierRelease(t *testing.T) {
	st := newStage(t)
	l := st.parker(t)
	over := request(st.s.Way(), 1)
	var c handoff.Cancel
	l.expect(handoff.TypeCancel, &c)
	if c.Request != 0 {
		t.Errorf("it is asked for an answer: %+v", c)
	}
	ends(t, over)
}

// What follows a session arrives behind it.
func TestForwardsFollowTheSession(t *testing.T) {
	st := newStage(t)
	l, way := st.answering(t)
	g := st.offerBy(t, way, "s1", func(*handoff.Record) {})
	way.Leave("s1")
	over := request(way, 1)
	handoff.CloseFDs(l.receiveSession().FDs)
	var c handoff.Cancel
	l.expect(handoff.TypeCancel, &c)
	var leave handoff.Leave
	l.expect(handoff.TypeLeave, &leave)
	if !slices.Equal(leave.Sessions, []string{"s1"}) {
		t.Errorf("%+v", leave)
	}
	goesOn(t, over)
	l.Close()
	g.ends(t, Kept)
	ends(t, over)
}

// A listener that refuses one session for a reason of its own is asked about others.
func TestOfferRefusedAlone(t *testing.T) {
	st := newStage(t)
	l := st.parker(t)
	g := st.offer(t, "s1")
	handoff.CloseFDs(l.receiveSession().FDs)
	if err := l.Send(handoff.TypeRefuse, handoff.SessionRef{Session: "s1", Reason: "it is here already", Alone: true}); err != nil {
		t.Fatal(err)
	}
	g.ends(t, Kept)
	if st.s.Way() == nil {
		t.Error("the listener is not asked about others")
	}
}
