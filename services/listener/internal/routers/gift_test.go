package routers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// talk is a conversation that a listener has begun with another one, and what it wants.
type talk struct {
	t *testing.T
	*handoff.Conn
	*handoff.Message
}

// relative is another listener, which says what the test says.
func (s *stage) relative(id string) <-chan *talk {
	s.t.Helper()
	claim, err := s.dir.Claim(rundir.Listener, id)
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := claim.Listen()
	if err != nil {
		s.t.Fatal(err)
	}
	talks := make(chan *talk, 1000)
	var open []*talk
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			u, err := l.AcceptUnix()
			if err != nil {
				return
			}
			c := &talk{t: s.t, Conn: handoff.NewConn(u)}
			open = append(open, c)
			if err := u.SetReadDeadline(time.Now().Add(patience)); err != nil {
				s.t.Error(err)
			}
			if _, err = c.Greeted(rundir.Listener); err == nil {
				c.Message, err = c.Receive()
			}
			if err != nil {
				s.t.Error(err)
				return
			}
			talks <- c
		}
	})
	s.t.Cleanup(func() {
		s.stop() // it says nothing any more
		l.Close()
		wg.Wait()
		for _, c := range open {
			c.Close()
		}
		if err := claim.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return talks
}

// gives has a router that stops leave a session with the listener, which stops as well, and
// gives the conversation in which another one is offered the session, those that follow, and
// the client's end.
func (s *stage) gives(change func(*handoff.Record)) (talks <-chan *talk, offer *talk, client int) {
	s.t.Helper()
	talks = s.relative("2")
	a := s.router("a", "x")
	a.stops()
	client, _ = a.gives("x", handoff.TypeAck, change)
	s.Refuse()
	return talks, s.next(talks, handoff.TypeSession), client
}

// next waits for a conversation about something.
func (s *stage) next(talks <-chan *talk, about handoff.Type) *talk {
	s.t.Helper()
	select {
	case c := <-talks:
		handoff.CloseFDs(c.FDs)
		if c.Type != about {
			s.t.Fatalf("the other listener hears a %q message %s; want %q", c.Type, c.Body, about)
		}
		return c
	case <-time.After(patience):
		s.t.Fatalf("the other listener hears nothing; want a %q message", about)
	}
	return nil
}

// answer answers for an offered session, and gives its id.
func (c *talk) answer(typ handoff.Type) string {
	c.t.Helper()
	p, err := handoff.OpenParcel(c.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.Send(typ, handoff.SessionRef{Session: p.Session, Reason: "told to"}); err != nil {
		c.t.Fatal(err)
	}
	return p.Session
}

// found answers a cancel request.
func (c *talk) found(found bool) {
	c.t.Helper()
	if err := c.Send(handoff.TypeCanceled, handoff.Canceled{Request: 1, Found: found}); err != nil {
		c.t.Fatal(err)
	}
}

// offering waits until so many sessions are being offered to other listeners, and gives how
// many of them a cancel request has come for.
func (s *stage) offering(want int) (canceled int) {
	s.t.Helper()
	s.await(fmt.Sprintf("%d sessions are offered to other listeners", want), func() bool {
		s.state.Lock()
		defer s.state.Unlock()
		n := 0
		canceled = 0
		for _, p := range s.state.parked {
			if p.gift != nil {
				n++
				if p.canceled {
					canceled++
				}
			}
		}
		return n == want
	})
	return canceled
}

// A cancel request that comes while another listener is being offered the session is over when
// that has acted on it, or whoever has the session by then, and never before: it would hit
// what its client sends next.
func TestCancelRequestsForSessionsThatAreGiven(t *testing.T) {
	for name, c := range map[string]struct {
		// ask is how the request comes.
		ask func(s *stage) chan bool
		// then answers the offer, and whatever follows.
		then func(s *stage, offer *talk, talks <-chan *talk, b *router)
	}{
		"it is parked there": {(*stage).cancels, func(s *stage, offer *talk, talks <-chan *talk, b *router) {
			offer.answer(handoff.TypeAck)
			s.next(talks, handoff.TypeCancel).found(true)
			b.answers(b.asked(), false)
		}},
		"it has gone on to a router": {(*stage).cancels, func(s *stage, offer *talk, talks <-chan *talk, b *router) {
			offer.answer(handoff.TypeAck)
			s.next(talks, handoff.TypeCancel).found(false)
			b.answers(b.asked(), true)
		}},
		"it goes on to a router when that has been asked": {(*stage).cancels, func(s *stage, offer *talk, talks <-chan *talk, b *router) {
			offer.answer(handoff.TypeAck)
			c := s.next(talks, handoff.TypeCancel)
			b.answers(b.asked(), false)
			c.found(false) // it has left there meanwhile
			b.answers(b.asked(), true)
		}},
		"a third listener asks": {(*stage).cancelsFor, func(s *stage, offer *talk, talks <-chan *talk, b *router) {
			offer.answer(handoff.TypeAck)
			s.next(talks, handoff.TypeCancel).found(false)
			b.answers(b.asked(), true)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			talks := s.relative("2")
			a := s.router("a", "x")
			a.stops()
			a.gives("x", handoff.TypeAck, nil)
			a.die()
			s.Refuse()
			offer := s.next(talks, handoff.TypeSession)
			b := s.router("b")
			over := c.ask(s)
			s.await("the request has come", func() bool { return s.offering(1) == 1 })
			select {
			case <-over:
				t.Fatal("the request is over before it is known who has the session")
			default:
			}
			c.then(s, offer, talks, b)
			if !<-over {
				t.Error("its session is not found")
			}
		})
	}
}

// cancelsFor asks as another listener does, and gives whether the session was found.
func (s *stage) cancelsFor() chan bool {
	return s.cancelsWithin(s.t.Context())
}

func (s *stage) cancelsWithin(ctx context.Context) chan bool {
	over := make(chan bool, 1)
	go s.CancelParked(ctx, key, func(found bool) { over <- found })
	return over
}

// Of a session that is still being offered when the answer is not waited for any longer, it is
// not known who has it. The request stays with it.
func TestCancelRequestsThatNobodyWaitsFor(t *testing.T) {
	s := newStage(t)
	talks := s.relative("2")
	a := s.router("a", "x")
	a.stops()
	a.gives("x", handoff.TypeAck, nil)
	s.Refuse()
	offer := s.next(talks, handoff.TypeSession)
	ctx, stop := context.WithCancel(t.Context())
	over := s.cancelsWithin(ctx)
	s.await("the request has come", func() bool { return s.offering(1) == 1 })
	stop()
	if <-over {
		t.Error("its session is said to be here")
	}
	offer.answer(handoff.TypeRefuse)
	again := s.next(talks, handoff.TypeSession)
	if !canceled(t, again.Message) {
		t.Error("the request is lost")
	}
	again.answer(handoff.TypeAck)
	s.Empty(t.Context())
}

// A listener that hangs keeps parked sessions from nobody else who takes them: that it hangs
// is found out once, not for each of them. What it says later is not heard.
func TestSessionsAreNotKeptFromOthersByAListenerThatHangs(t *testing.T) {
	const sessions = 3 * giftsAtOnce
	for name, others := range map[string]func(s *stage) (takes func() string){
		"another listener takes them": func(s *stage) func() string {
			talks := s.relative("3")
			return func() string { return s.next(talks, handoff.TypeSession).answer(handoff.TypeAck) }
		},
		"a router comes": func(s *stage) func() string {
			var b *router
			return func() string {
				if b == nil {
					b = s.router("b")
				}
				p, err := handoff.OpenParcel(b.takes().Body)
				if err != nil {
					s.t.Fatal(err)
				}
				return p.Session
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.kin.Patience = 2 * time.Second
			hangs := s.relative("2")
			takes := others(s)
			a := s.router("a")
			a.stops()
			var all, taken []string
			for i := range sessions {
				all = append(all, fmt.Sprint("s", i))
				a.gives(all[i], handoff.TypeAck, nil)
			}
			s.Refuse()
			offer := s.next(hangs, handoff.TypeSession)
			for range giftsAtOnce - 1 {
				s.next(hangs, handoff.TypeSession)
			}
			for range sessions {
				taken = append(taken, takes())
			}
			s.Empty(t.Context())
			if n := len(hangs); n >= giftsAtOnce {
				t.Errorf("%d more sessions are offered to the one that hangs", n)
			}
			slices.Sort(taken)
			slices.Sort(all)
			if !slices.Equal(taken, all) {
				t.Errorf("taken are %q, want each once", taken)
			}
			if err := offer.Send(handoff.TypeAck, handoff.SessionRef{}); err == nil {
				t.Error("the one that hangs can still take a session")
			}
		})
	}
}

// One for a session that nobody else takes is kept for what its client has sent.
func TestCancelRequestsForSessionsThatNobodyTakes(t *testing.T) {
	s := newStage(t)
	talks, offer, _ := s.gives(nil)
	over := s.cancels()
	s.await("the request has come", func() bool { return s.offering(1) == 1 })
	offer.answer(handoff.TypeRefuse)
	if !<-over {
		t.Error("its session is not found")
	}
	again := s.next(talks, handoff.TypeSession)
	if !canceled(t, again.Message) {
		t.Error("the request is lost")
	}
	if !<-s.cancels() { // for the same statement: it is being canceled already
		t.Error("its session is not found")
	}
	again.answer(handoff.TypeAck)
	s.Empty(t.Context())
	select {
	case c := <-talks:
		t.Errorf("the other listener hears a %q message %s", c.Type, c.Body)
	default:
	}
}

// One for a session whose client has sent nothing is over at once, and stops nothing.
func TestCancelRequestsForIdleSessionsThatAreGiven(t *testing.T) {
	s := newStage(t)
	talks, offer, client := s.gives(idle)
	if !<-s.cancels() {
		t.Error("its session is not found")
	}
	if _, err := unix.Write(client, []byte("what comes behind")); err != nil {
		t.Fatal(err)
	}
	offer.answer(handoff.TypeRefuse)
	again := s.next(talks, handoff.TypeSession)
	if canceled(t, again.Message) {
		t.Error("what comes behind is canceled")
	}
	again.answer(handoff.TypeAck)
	s.Empty(t.Context())
}

// A session that is told to end while another listener is being offered it ends there.
func TestSessionsThatAreGivenEnd(t *testing.T) {
	s := newStage(t)
	talks, offer, _ := s.gives(nil)
	s.Leave(t.Context(), []string{"x"})
	s.next(talks, handoff.TypeLeave) // which came too early for it
	offer.answer(handoff.TypeAck)
	var leave handoff.Leave
	if err := s.next(talks, handoff.TypeLeave).Unmarshal(&leave); err != nil || !slices.Equal(leave.Sessions, []string{"x"}) {
		t.Errorf("asked to end %+v, %v", leave, err)
	}
}

// A listener that stops gives its sessions away some at a time, and those again that were
// refused.
func TestSessionsAreGivenSomeAtATime(t *testing.T) {
	const sessions = 3 * giftsAtOnce
	s := newStage(t)
	talks := s.relative("2")
	a := s.router("a")
	a.stops()
	var all []string
	for i := range sessions {
		all = append(all, fmt.Sprint("s", i))
		a.gives(all[i], handoff.TypeAck, nil)
	}
	s.Refuse()
	var offers []*talk
	for range giftsAtOnce {
		offers = append(offers, s.next(talks, handoff.TypeSession))
	}
	s.offering(giftsAtOnce)
	refused := map[string]bool{}
	var taken []string
	for len(taken) < sessions {
		if len(offers) == 0 {
			offers = append(offers, s.next(talks, handoff.TypeSession))
		}
		if n := len(offers) + len(talks); n > giftsAtOnce {
			t.Fatalf("%d are offered at a time", n)
		}
		o := offers[0]
		offers = offers[1:]
		p, err := handoff.OpenParcel(o.Body)
		if err != nil {
			t.Fatal(err)
		}
		if !refused[p.Session] {
			refused[p.Session] = true
			o.answer(handoff.TypeRefuse)
			continue
		}
		taken = append(taken, o.answer(handoff.TypeAck))
	}
	s.Empty(t.Context())
	slices.Sort(taken)
	slices.Sort(all)
	if !slices.Equal(taken, all) {
		t.Errorf("taken are %q, want each once", taken)
	}
}
