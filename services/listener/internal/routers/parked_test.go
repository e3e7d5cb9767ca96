package routers

import (
	"slices"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
)

// A session goes from one router to the other, with all that it has, and counts once.
func TestPassedOn(t *testing.T) {
	s := newStage(t)
	a, b := s.router("a", "x"), s.router("b")
	client, server := a.gives("x", handoff.TypeAck, nil)
	m := b.expect(handoff.TypeSession)
	rec, err := handoff.DecodeRecord(m.Body)
	if err != nil || rec.Session != "x" || string(rec.Unread) != "Q" || len(m.FDs) != 2 {
		t.Fatalf("%+v with %d descriptors, %v", rec, len(m.FDs), err)
	}
	b.ack(m)
	a.arrived("x")
	connected(t, m.FDs, client, server)
	a.die()
	s.await("one router is left", func() bool { return s.Len() == 1 })
	if got := s.book.sessions(); !slices.Equal(got, []string{"x"}) {
		t.Errorf("counted are %q", got)
	}
	handoff.CloseFDs(m.FDs)
	if err := b.Send(handoff.TypeEnded, handoff.Ended{Sessions: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	s.await("it is not counted any more", func() bool { return len(s.book.sessions()) == 0 })
	if said := ended(t, client) + ended(t, server); said != "" {
		t.Errorf("the listener has said %q", said)
	}
}

// A session without another router waits, keeps a cancel request that comes meanwhile,
// and goes to the first router that comes; not to the one that stops.
func TestParkedUntilARouterComes(t *testing.T) {
	s := newStage(t)
	a := s.router("a", "x")
	a.stops()
	a.gives("x", handoff.TypeAck, nil)
	a.arrived("x") // there is nothing to wait for
	over := false
	s.Cancel(t.Context(), key, func(found bool) { over = found })
	if !over {
		t.Error("the client of the cancel request waits")
	}
	a.die()
	b := s.router("b")
	m := b.expect(handoff.TypeSession)
	defer handoff.CloseFDs(m.FDs)
	rec, err := handoff.DecodeRecord(m.Body)
	if err != nil || !rec.Live.Canceled {
		t.Errorf("%+v, %v: the cancel request is lost", rec.Live, err)
	}
	b.ack(m)
	s.await("it is the router's", func() bool {
		s.state.Lock()
		defer s.state.Unlock()
		return len(s.state.parked) == 0
	})
}

// A router that dies, or refuses, with the session in its hands does not have it.
func TestPassedOnAgain(t *testing.T) {
	for name, fail := range map[string]func(b *router, m *handoff.Message){
		"dies": func(b *router, _ *handoff.Message) { b.die() },
		"refuses": func(b *router, m *handoff.Message) {
			if err := b.Send(handoff.TypeRefuse, handoff.SessionRef{Session: "x"}); err != nil {
				b.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			a, b := s.router("a", "x", "y", "z"), s.router("b")
			a.gives("x", handoff.TypeAck, nil)
			m := b.expect(handoff.TypeSession)
			handoff.CloseFDs(m.FDs)
			fail(b, m)
			back := a.expect(handoff.TypeSession) // better than nowhere
			handoff.CloseFDs(back.FDs)
			a.ack(back)
			s.await("it is counted", func() bool { return slices.Contains(s.book.sessions(), "x") })
		})
	}
}

// What cannot be taken stays with its router.
func TestLeftWithItsRouter(t *testing.T) {
	s := newStage(t)
	a := s.router("a", "x")
	a.gives("x", handoff.TypeRefuse, func(r *handoff.Record) { r.Live.Leases = append(r.Live.Leases, handoff.Lease{Idle: true}) }) // a descriptor too few
	s.Refuse()
	a.gives("x", handoff.TypeRefuse, nil)
	s.Empty(t.Context())
	if got := s.book.sessions(); !slices.Equal(got, []string{"x"}) {
		t.Errorf("counted are %q", got)
	}
	if err := a.Send(handoff.TypeSession, "no record"); err != nil {
		t.Fatal(err)
	}
	if m, err := a.Receive(); err == nil {
		t.Errorf("received %q %s; want the end of the connection: whose session it was is not known", m.Type, m.Body)
	}
}

// The end of the client or of the server of a parked session is its end; so is the end of
// the listener, which its client is told, and that of what carries its client's bytes.
func TestParkedSessionsEnd(t *testing.T) {
	for name, end := range map[string]struct {
		do   func(s *stage, client, server int)
		code string
	}{
		"its client is gone":     {do: func(_ *stage, client, _ int) { _ = unix.Shutdown(client, unix.SHUT_RDWR) }},
		"its server is gone":     {do: func(_ *stage, _, server int) { _ = unix.Shutdown(server, unix.SHUT_RDWR) }},
		"the listener stops":     {do: func(s *stage, _, _ int) { s.stop() }, code: "57P01"},
		"its relay is to end":    {do: func(s *stage, _, _ int) { s.Leave(s.t.Context(), []string{"x"}) }, code: "57P01"},
		"its server says a word": {do: func(_ *stage, _, server int) { say(server); _ = unix.Shutdown(server, unix.SHUT_RDWR) }, code: "57P05"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			a := s.router("a", "x")
			a.stops()
			client, server := a.gives("x", handoff.TypeAck, func(r *handoff.Record) { r.Unread = nil })
			end.do(s, client, server)
			if said := ended(t, client); end.code == "" && said != "" || end.code != "" && !slices.Contains(codes(t, said), end.code) {
				t.Errorf("the client is told %q", said)
			}
			ended(t, server)
			s.await("it is not counted any more", func() bool { return len(s.book.sessions()) == 0 })
		})
	}
}

func say(fd int) {
	b, err := (&pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P05", Message: "idle"}).Encode(nil)
	if err == nil {
		_, _ = unix.Write(fd, b)
	}
}

// codes gives the SQLSTATEs of what was said.
func codes(t *testing.T, said string) (out []string) {
	t.Helper()
	for b := []byte(said); len(b) > 5; {
		n := 1 + int(b[1])<<24 + int(b[2])<<16 + int(b[3])<<8 + int(b[4])
		var e pgproto3.ErrorResponse
		if b[0] != 'E' || n > len(b) || e.Decode(b[5:n]) != nil {
			t.Fatalf("%q", said)
		}
		out = append(out, e.Code)
		b = b[n:]
	}
	return out
}

// A router that has many more sessions than one that comes is asked for some of them.
func TestRebalance(t *testing.T) {
	s := newStage(t)
	var many []string
	for i := range 61 {
		many = append(many, "s"+strconv.Itoa(i))
	}
	a := s.router("a", many...)
	s.router("b", "x")
	m := a.expect(handoff.TypeShed)
	var shed handoff.Shed
	if err := m.Unmarshal(&shed); err != nil || shed.Sessions != 30 {
		t.Errorf("it is asked for %+v, %v; want 30", shed, err)
	}
	s.router("c", many[:31]...)
	s.state.Lock()
	loads := map[string]int{}
	for l := range s.state.links {
		loads[l.id] = l.load()
	}
	s.state.Unlock()
	if got := s.surplus(); len(got) != 1 {
		t.Errorf("with %v, %d routers have too much", loads, len(got))
	}
}
