package routers

import (
	"slices"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
)

// counts waits until the listener counts exactly these.
func (s *stage) counts(want ...string) {
	s.t.Helper()
	slices.Sort(want)
	s.await("it is counted", func() bool { return slices.Equal(s.book.sessions(), want) })
}

// tell sends news of sessions.
func (r *router) tell(what handoff.Type, sessions ...string) {
	r.t.Helper()
	if err := r.Send(what, handoff.Ended{Sessions: sessions}); err != nil { // all have the same body
		r.t.Fatal(err)
	}
}

// heard waits until the listener has acted on everything that the router has said.
func (s *stage) heard(r *router) {
	s.t.Helper()
	counted := func() bool { return slices.Contains(s.book.sessions(), "a mark") }
	r.tell(handoff.TypeBegan, "a mark")
	s.await("the mark is counted", counted)
	r.tell(handoff.TypeEnded, "a mark")
	s.await("the mark is not counted any more", func() bool { return !counted() })
}

// Sessions that come to routers and leave them by way of other listeners are counted, also
// while another listener has them, and until nothing more can come of that.
func TestNewsOfOtherListeners(t *testing.T) {
	s := newStage(t)
	a := s.router("a", "x")
	a.tell(handoff.TypeBegan, "y", "z")
	s.counts("x", "y", "z")
	a.tell(handoff.TypeMoved, "x", "y", "not its own")
	a.tell(handoff.TypeEnded, "z")
	s.counts("x", "y")
	s.Gone([]string{"x", "z"})
	s.counts("y")
	s.expire(time.Now())
	s.counts("y")
	s.expire(time.Now().Add(awayTime + time.Second))
	s.counts()
}

// What two routers say of one session is heard in any order.
func TestNewsOfSeveralRouters(t *testing.T) {
	for name, c := range map[string]struct {
		news  func(s *stage, a, b *router)
		after []string
	}{
		"it has come there before it has left here": {func(s *stage, a, b *router) {
			b.tell(handoff.TypeBegan, "x")
			s.heard(b)
			a.tell(handoff.TypeMoved, "x")
			s.heard(a)
		}, []string{"x"}},
		"it has come there, and its former router ends": {func(s *stage, a, b *router) {
			b.tell(handoff.TypeBegan, "x")
			s.heard(b)
			a.die()
			s.await("one router is left", func() bool { return s.Len() == 1 })
		}, []string{"x"}},
		"it has ended there before it has left here": {func(s *stage, a, b *router) {
			b.tell(handoff.TypeBegan, "x")
			b.tell(handoff.TypeEnded, "x")
			s.heard(b)
			a.tell(handoff.TypeMoved, "x")
			s.heard(a)
		}, nil},
		"it has left here, and has come there": {func(s *stage, a, b *router) {
			a.tell(handoff.TypeMoved, "x")
			s.heard(a)
			b.tell(handoff.TypeBegan, "x")
			s.heard(b)
			s.expire(time.Now().Add(awayTime + time.Second))
		}, []string{"x"}},
		"it has left here, and its former router ends": {func(s *stage, a, _ *router) {
			a.tell(handoff.TypeMoved, "x")
			a.die()
			s.await("one router is left", func() bool { return s.Len() == 1 })
		}, []string{"x"}},
		"it has come here, there, and back, and ends": {func(s *stage, a, b *router) {
			b.tell(handoff.TypeBegan, "x")
			b.tell(handoff.TypeMoved, "x")
			s.heard(b)
			a.tell(handoff.TypeMoved, "x")
			a.tell(handoff.TypeBegan, "x")
			a.tell(handoff.TypeEnded, "x")
			s.heard(a)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			a, b := s.router("a", "x"), s.router("b")
			c.news(s, a, b)
			s.counts(c.after...)
		})
	}
}

// A session that a router gives away here stays counted whatever is heard of the router
// that had it before, and ends with the one that it has gone to.
func TestNewsOfAParkedSession(t *testing.T) {
	s := newStage(t)
	a, b := s.router("a", "x"), s.router("b")
	b.tell(handoff.TypeBegan, "x") // by way of another listener
	s.heard(b)
	b.stops()
	a.stops()
	s.heard(a)
	b.gives("x", handoff.TypeAck, nil)
	a.tell(handoff.TypeMoved, "x")
	s.heard(a)
	s.counts("x")
	a.die()
	b.die()
	s.await("no router is left", func() bool { return s.Len() == 0 })
	s.counts("x")
	c := s.router("c")
	m := c.expect(handoff.TypeSession)
	c.ack(m)
	handoff.CloseFDs(m.FDs)
	c.tell(handoff.TypeEnded, "x")
	s.counts()
}

// Of two listeners both count every session, whichever of them it moves by, and one that
// starts anew finds out what there is.
func TestTwoListenersCount(t *testing.T) {
	one := newStage(t)
	two := newStageIn(t, one.dir, "2")
	both := []*stage{one, two}
	a := one.routerOf(both, "a", "x", "y")
	b := one.routerOf(both, "b")
	a[one].gives("x", handoff.TypeAck, nil)
	a[two].tell(handoff.TypeMoved, "x")
	m := b[one].expect(handoff.TypeSession)
	b[one].ack(m)
	handoff.CloseFDs(m.FDs)
	two.heard(a[two])
	one.counts("x", "y")
	two.counts("x", "y")
	b[two].tell(handoff.TypeBegan, "x")
	for _, s := range both {
		s.counts("x", "y")
	}
	a[one].die()
	for _, s := range both {
		s.counts("x")
	}
	for _, s := range both {
		b[s].tell(handoff.TypeEnded, "x")
		s.counts()
	}
}
