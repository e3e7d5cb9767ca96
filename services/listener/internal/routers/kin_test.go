package routers

import (
	"context"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/services/listener/internal/sibling"
)

// key is that of the sessions that gives offers.
var key = handoff.CancelKey{PID: 7, Secret: []byte{1}}

// pair runs two listeners that answer each other.
func pair(t *testing.T) (one, two *stage) {
	t.Helper()
	one = newStage(t)
	two = newStageIn(t, one.dir, "2")
	one.answers()
	two.answers()
	return one, two
}

// answers has the listener answer others until the test ends.
func (s *stage) answers() {
	s.t.Helper()
	claim, err := s.dir.Claim(rundir.Listener, s.id)
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := claim.Listen()
	if err != nil {
		s.t.Fatal(err)
	}
	host := &sibling.Host{Parked: s.Fleet, Log: s.log, Share: func() ([]string, []int, error) { return nil, nil, nil }}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := host.Serve(ctx, l); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(func() {
		stop()
		wg.Wait()
		if err := claim.Close(); err != nil {
			s.t.Error(err)
		}
	})
}

// cancels asks for a cancellation and gives whether the session was found.
func (s *stage) cancels() chan bool {
	over := make(chan bool, 1)
	go s.Cancel(s.t.Context(), key, func(found bool) { over <- found })
	return over
}

// idle is a change of a session that makes it one whose client waits for nothing.
func idle(r *handoff.Record) { r.Unread = nil }

// asked waits for a cancel request.
func (r *router) asked() (c handoff.Cancel) {
	r.t.Helper()
	if err := r.expect(handoff.TypeCancel).Unmarshal(&c); err != nil || c.PID != key.PID || c.Request == 0 {
		r.t.Fatalf("asked for %+v, %v", c, err)
	}
	return c
}

// answers says that the request is over, and whether its session is there.
func (r *router) answers(c handoff.Cancel, found bool) {
	r.t.Helper()
	if err := r.Send(handoff.TypeCanceled, handoff.Canceled{Request: c.Request, Found: found}); err != nil {
		r.t.Fatal(err)
	}
}

// leaves asks for the end of a session.
func (r *router) leaves(session string) {
	r.t.Helper()
	if err := r.Send(handoff.TypeLeave, handoff.Leave{Sessions: []string{session}}); err != nil {
		r.t.Fatal(err)
	}
}

// toLeave waits until the end of the session is asked for.
func (r *router) toLeave(session string) {
	r.t.Helper()
	var leave handoff.Leave
	if err := r.expect(handoff.TypeLeave).Unmarshal(&leave); err != nil || !slices.Equal(leave.Sessions, []string{session}) {
		r.t.Errorf("asked to end %+v, %v", leave, err)
	}
}

// takes waits for a session, takes it and gives its record's message, whose descriptors are
// closed.
func (r *router) takes() *handoff.Message {
	r.t.Helper()
	m := r.expect(handoff.TypeSession)
	handoff.CloseFDs(m.FDs)
	r.ack(m)
	return m
}

func canceled(t *testing.T, m *handoff.Message) bool {
	t.Helper()
	r, err := handoff.DecodeRecord(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.Live.Canceled
}

// A cancel request stops what the client of a parked session has sent before it, whoever
// has read that, and nothing else.
func TestCancelRequestsForParkedSessions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*handoff.Record)
		sends  string
		want   bool
	}{
		"a statement travels":         {want: true},
		"a statement is in its queue": {change: idle, sends: "Q", want: true},
		"it is idle":                  {change: idle},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			a := s.router("a", "x")
			a.stops()
			client, _ := a.gives("x", handoff.TypeAck, c.change)
			if _, err := unix.Write(client, []byte(c.sends)); err != nil {
				t.Fatal(err)
			}
			if !<-s.cancels() {
				t.Error("its session is not found")
			}
			if _, err := unix.Write(client, []byte("what comes behind")); err != nil {
				t.Fatal(err)
			}
			if got := canceled(t, s.router("b").takes()); got != c.want {
				t.Errorf("canceled: %v, want %v", got, c.want)
			}
		})
	}
}

// While a session is being offered, the router that it is offered to is asked behind its
// record, and only then is the request over. If that does not take it, the next one gets
// the request with the record.
func TestCancelRequestsFollowTheSession(t *testing.T) {
	s := newStage(t)
	a, b := s.router("a", "x"), s.router("b")
	a.stops()
	a.gives("x", handoff.TypeAck, nil)
	m := b.expect(handoff.TypeSession)
	handoff.CloseFDs(m.FDs)
	if canceled(t, m) {
		t.Error("it is canceled before anybody has asked for that")
	}
	over := s.cancels()
	c := b.asked()
	select {
	case <-over:
		t.Error("the request is over before the router has answered it")
	default:
	}
	b.refuse(m)
	b.answers(c, false)
	if !<-over {
		t.Error("its session is not found")
	}
	if !canceled(t, s.router("c").takes()) {
		t.Error("the request is lost")
	}
}

// A router that sends a request on hears when it is over.
func TestCancelRequestsOfRouters(t *testing.T) {
	s := newStage(t)
	a, b := s.router("a"), s.router("b", "x")
	if err := a.Send(handoff.TypeCancel, handoff.Cancel{CancelKey: key, Request: 5}); err != nil {
		t.Fatal(err)
	}
	a.answers(a.asked(), false) // it has gone
	b.answers(b.asked(), true)
	var got handoff.Canceled
	if err := a.expect(handoff.TypeCanceled).Unmarshal(&got); err != nil || got.Request != 5 || !got.Found {
		t.Errorf("%+v, %v", got, err)
	}
}

// A session that has moved while it was looked for is looked for again.
func TestCancelRequestsLookAgain(t *testing.T) {
	s := newStage(t)
	a, b := s.router("a", "x"), s.router("b")
	over := s.cancels()
	atA := a.asked()
	b.answers(b.asked(), false)
	b.tell(handoff.TypeBegan, "x") // from a, by way of another listener
	s.heard(b)
	a.answers(atA, false)
	b.answers(b.asked(), true)
	a.answers(a.asked(), false)
	if !<-over {
		t.Error("it is not found where it has gone")
	}
}

// A listener that stops gives the sessions that are parked to another one, with the cancel
// requests that have come for them, and the count of both is what it was.
func TestParkedSessionsGoToAnotherListener(t *testing.T) {
	one, two := pair(t)
	both := []*stage{one, two}
	a := one.routerOf(both, "a", "x", "y")
	a[one].stops()
	a[two].stops()
	client, server := a[one].gives("x", handoff.TypeAck, nil)
	a[two].tell(handoff.TypeMoved, "x")
	if !<-two.cancels() {
		t.Error("a cancel request that comes to the other listener does not find it")
	}
	one.Refuse()
	one.Empty(t.Context())
	two.await("it is there", func() bool {
		two.state.Lock()
		defer two.state.Unlock()
		return two.state.parked["x"] != nil
	})
	one.counts("x", "y")
	two.counts("x", "y")
	one.stop() // for good
	b := two.router("b")
	m := b.expect(handoff.TypeSession)
	if !canceled(t, m) || len(m.FDs) != 2 {
		t.Errorf("it comes with %d descriptors, canceled: %v", len(m.FDs), canceled(t, m))
	}
	b.ack(m)
	connected(t, m.FDs, client, server)
	handoff.CloseFDs(m.FDs)
	two.counts("x", "y")
}

// A session that no other listener takes is still there for a router that comes.
func TestParkedSessionsStayWhereTheyAre(t *testing.T) {
	one, two := pair(t)
	a := one.routerOf([]*stage{one, two}, "a")
	a[one].stops()
	a[one].gives("x", handoff.TypeAck, nil)
	two.Refuse()
	one.Refuse()
	one.routerOf([]*stage{one, two}, "b")[one].takes()
	one.Empty(t.Context())
	one.await("the router has it", func() bool { return slices.Contains(one.sessionsOf("b"), "x") })
}

// Who carries the bytes of a client whose session is parked with another listener has it
// ended there, and both forget it.
func TestSessionsParkedElsewhereEnd(t *testing.T) {
	one, two := pair(t)
	both := []*stage{one, two}
	a := one.routerOf(both, "a", "x")
	a[one].stops()
	client, server := a[one].gives("x", handoff.TypeAck, nil)
	a[two].tell(handoff.TypeMoved, "x")
	two.heard(a[two])
	two.counts("x")
	two.Leave(t.Context(), []string{"x"})
	if said := ended(t, client); !slices.Contains(codes(t, said), "57P01") {
		t.Errorf("the client is told %q", said)
	}
	ended(t, server)
	one.counts()
	two.counts()
}

// A session that is told to end while it is being offered is told so by the router that
// takes it.
func TestSessionsOnTheirWayEnd(t *testing.T) {
	s := newStage(t)
	a, b := s.router("a", "x"), s.router("b")
	a.stops()
	a.gives("x", handoff.TypeAck, nil)
	m := b.expect(handoff.TypeSession)
	handoff.CloseFDs(m.FDs)
	s.Leave(t.Context(), []string{"x"})
	b.toLeave("x") // which came too early for it
	b.ack(m)
	b.toLeave("x")
}

// A router that gave a session away which is told to end passes that on.
func TestRoutersSendOnWhoIsToLeave(t *testing.T) {
	s := newStage(t)
	a, b := s.router("a"), s.router("b", "x")
	a.leaves("x")
	b.toLeave("x")
}

// A request that comes before the record has left is sent behind it.
func TestCancelRequestsWaitForTheRecord(t *testing.T) {
	s := newStage(t)
	b := s.router("b")
	s.state.Lock()
	p := &parked{Parcel: &handoff.Parcel{Session: "x", Cancel: key, Unread: true}}
	for l := range s.state.links {
		p.to = l
	}
	s.state.parked["x"] = p
	s.metrics.parked.Inc()
	s.state.Unlock()
	over := s.cancels()
	s.await("it is kept", func() bool {
		s.state.Lock()
		defer s.state.Unlock()
		return len(p.behind) == 1
	})
	s.follow(p)
	b.answers(b.asked(), true)
	if !<-over || !p.canceled {
		t.Error("it is lost")
	}
	s.state.Lock()
	defer s.state.Unlock()
	s.dropLocked(p)
}

// One that waits for a record which did not leave, since too much was on its way, is over at
// once: the next record has the mark.
func TestCancelRequestsForPostponedSessions(t *testing.T) {
	s := newStage(t)
	b := s.router("b")
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer handoff.CloseFDs(pair[:])
	s.state.Lock()
	p := &parked{Parcel: &handoff.Parcel{Session: "x", Cancel: key, Unread: true}, fds: pair[:1]}
	var to *link
	for l := range s.state.links {
		p.to, to = l, l
	}
	s.state.parked["x"] = p
	s.metrics.parked.Inc()
	s.state.Unlock()
	over := s.cancels()
	s.await("it is kept", func() bool {
		s.state.Lock()
		defer s.state.Unlock()
		return len(p.behind) == 1
	})
	if err := s.stay(p); err != nil {
		t.Fatal(err)
	}
	s.state.Lock()
	if n := len(to.cancels); n > 0 {
		t.Errorf("%d requests wait for an answer to what is not sent", n)
	}
	s.state.Unlock()
	if !<-over || !p.canceled {
		t.Error("it is lost")
	}
	if !p.spot.Take() {
		t.Error("the session is not parked")
	}
	s.state.Lock()
	s.dropLocked(p)
	s.state.Unlock()
	b.tell(handoff.TypeBegan, "a mark")
	s.counts("a mark") // and no cancel request before
}
