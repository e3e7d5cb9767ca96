package routers

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

const patience = 30 * time.Second

// book counts clients.
type book struct {
	mu  sync.Mutex
	has map[string]bool
}

func (b *book) Adopt(s string) { b.set(s, true) }
func (b *book) Close(s string) { b.set(s, false) }

func (b *book) set(s string, has bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if has {
		b.has[s] = true
	} else {
		delete(b.has, s)
	}
}

func (b *book) sessions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.has))
}

// stage is a fleet that runs.
type stage struct {
	*Fleet
	t    *testing.T
	dir  *rundir.Dir
	book *book
	stop func()
}

func newStage(t *testing.T) *stage {
	t.Helper()
	folder, err := os.MkdirTemp("", "routers-") // t.TempDir has the test's name, for which a socket's path has no room
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	dir, err := rundir.Open(filepath.Join(folder, "r"))
	if err != nil {
		t.Fatal(err)
	}
	return newStageIn(t, dir, "1")
}

// newStageIn runs the fleet of one of several listeners.
func newStageIn(t *testing.T, dir *rundir.Dir, id string) *stage {
	t.Helper()
	b := &book{has: map[string]bool{}}
	s := &stage{Fleet: New(dir, id, b, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(t.Output(), nil))), t: t, dir: dir, book: b}
	s.kin.Patience = patience
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	s.await("it runs", func() bool {
		s.state.Lock()
		defer s.state.Unlock()
		return s.state.running
	})
	s.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(s.stop)
	return s
}

// router is a router's end of the connection to the fleet.
type router struct {
	t *testing.T
	*handoff.Conn
	raw   *net.UnixConn
	claim *rundir.Claim
	die   func()
	// last is the last message that was expected.
	last *handoff.Message
	// change makes something else of the records that it gives away, if it is not nil.
	change func(payload []byte) []byte
}

// router starts one that has these sessions.
func (s *stage) router(id string, sessions ...string) *router {
	s.t.Helper()
	return s.routerOf([]*stage{s}, id, sessions...)[s]
}

// routerOf starts one that several listeners connect to, and gives its ends of the
// connections.
func (s *stage) routerOf(listeners []*stage, id string, sessions ...string) map[*stage]*router {
	s.t.Helper()
	claim, err := s.dir.Claim(rundir.Router, id)
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := claim.Listen()
	if err != nil {
		s.t.Fatal(err)
	}
	ends := map[*stage]*router{}
	die := sync.OnceFunc(func() {
		for _, r := range ends {
			r.Close()
		}
		l.Close()
		if err := claim.Close(); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(die)
	for range listeners {
		u, err := l.AcceptUnix()
		if err != nil {
			s.t.Fatal(err)
		}
		if err := u.SetReadDeadline(time.Now().Add(patience)); err != nil {
			s.t.Fatal(err)
		}
		r := &router{t: s.t, Conn: handoff.NewConn(u), raw: u, claim: claim, die: die}
		if err := r.Send(handoff.TypeHello, handoff.Hello{V: handoff.ProtocolVersion, Service: rundir.Router, ID: id, Sessions: sessions, Answers: true}); err != nil {
			s.t.Fatal(err)
		}
		m := r.expect(handoff.TypeHello)
		var h handoff.Hello
		if err := m.Unmarshal(&h); err != nil || !h.Parks || !h.Answers || !h.Tells {
			s.t.Fatalf("%+v, %v: the listener does not say that it takes sessions and answers", h, err)
		}
		for _, st := range listeners {
			if st.id == h.ID {
				ends[st] = r
			}
		}
	}
	for _, st := range listeners {
		st.await("the router is known", func() bool { return st.knows(id) })
	}
	return ends
}

// knows reports whether there is a connection to the router.
func (s *stage) knows(id string) bool {
	s.state.Lock()
	defer s.state.Unlock()
	for l := range s.state.links {
		if l.id == id {
			return true
		}
	}
	return false
}

func (s *stage) await(what string, ok func() bool) {
	s.t.Helper()
	deadline := time.After(patience)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-deadline:
			s.t.Fatalf("it does not come about that %s", what)
		}
	}
}

func (r *router) expect(typ handoff.Type) *handoff.Message {
	r.t.Helper()
	m, err := r.Receive()
	for err == nil && m.Type == handoff.TypeArrived && typ != m.Type { // by the way
		m, err = r.Receive()
	}
	if err != nil || m.Type != typ {
		r.t.Fatalf("received %+v, %v; want a %q message", m, err, typ)
	}
	r.last = m
	return m
}

// arrived waits until it is told that the session is not on its way any more.
func (r *router) arrived(session string) {
	r.t.Helper()
	var a handoff.Arrived
	if err := r.expect(handoff.TypeArrived).Unmarshal(&a); err != nil || !slices.Equal(a.Sessions, []string{session}) {
		r.t.Errorf("%+v, %v have arrived", a, err)
	}
}

func (r *router) ack(m *handoff.Message) {
	r.t.Helper()
	p, err := handoff.OpenParcel(m.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.Send(handoff.TypeAck, handoff.SessionRef{Session: p.Session}); err != nil {
		r.t.Fatal(err)
	}
}

// gives offers a session in a transaction, and closes its copies when it was taken as
// want says. It gives the client's and the server's ends.
func (r *router) gives(id string, want handoff.Type, change func(*handoff.Record)) (client, server int) {
	r.t.Helper()
	var ends, fds [2]int
	for i := range ends {
		ends[i], fds[i] = handofftest.Ends(r.t)
	}
	rec := &handoff.Record{
		Session: id, User: "u", Database: "d", Cancel: key,
		Live: &handoff.Live{Status: "T", Leases: []handoff.Lease{{Backend: "p0"}}}, Unread: []byte("Q"),
	}
	if change != nil {
		change(rec)
	}
	payload, err := rec.Encode()
	if err != nil {
		r.t.Fatal(err)
	}
	if r.change != nil {
		payload = r.change(payload)
	}
	if err := r.SendEncoded(payload, fds[:]...); err != nil {
		r.t.Fatal(err)
	}
	handoff.CloseFDs(r.expect(want).FDs)
	handoff.CloseFDs(fds[:])
	return ends[0], ends[1]
}

// connected sees that the descriptors are the other ends of these.
func connected(t *testing.T, fds []int, ends ...int) {
	t.Helper()
	for i, far := range ends {
		if _, err := unix.Write(fds[i], []byte("hi")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 2)
		if n, err := unix.Read(far, buf); n != 2 || err != nil {
			t.Errorf("descriptor %d is not what it was: %d, %v", i, n, err)
		}
	}
}

// ended waits for the end of a connection, and gives what was said before.
func ended(t *testing.T, fd int) string {
	t.Helper()
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)}); err != nil {
		t.Fatal(err)
	}
	var all []byte
	b := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, b)
		if err != nil {
			t.Fatalf("the connection is still open: %v", err)
		}
		if n == 0 {
			return string(all)
		}
		all = append(all, b[:n]...)
	}
}

// stops says that the router takes no more sessions.
func (r *router) stops() {
	r.t.Helper()
	if err := r.Send(handoff.TypeStopping, struct{}{}); err != nil {
		r.t.Fatal(err)
	}
}

// refuse leaves a session with the listener, and gives its id.
func (r *router) refuse(m *handoff.Message) string {
	r.t.Helper()
	p, err := handoff.OpenParcel(m.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.Send(handoff.TypeRefuse, handoff.SessionRef{Session: p.Session, Reason: "told to"}); err != nil {
		r.t.Fatal(err)
	}
	return p.Session
}

// sessionsOf lists what a router has, as far as the listener knows.
func (s *stage) sessionsOf(router string) []string {
	s.state.Lock()
	defer s.state.Unlock()
	for l := range s.state.links {
		if l.id == router {
			return slices.Sorted(maps.Keys(l.sessions))
		}
	}
	return nil
}

// fields gives the JSON of a record.
func fields(t *testing.T, payload []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(payload[4:4+binary.BigEndian.Uint32(payload)], &out); err != nil {
		t.Fatal(err)
	}
	return out
}
