package intake

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// patience bounds what must happen soon.
const patience = 30 * time.Second

// router is a Handler that notes what happens to sessions.
type router struct {
	mu       sync.Mutex
	refuse   bool
	hold     chan struct{} // Sessions waits for it, if there is one
	adopting func()        // runs before a session is taken, if there is one
	arrived  map[string]int
	owned    []string
	disowned []string
	canceled []handoff.CancelKey
	changed  chan struct{}
}

func newRouter() *router {
	return &router{arrived: map[string]int{}, changed: make(chan struct{}, 1000)}
}

func (r *router) change(f func()) {
	r.mu.Lock()
	f()
	r.mu.Unlock()
	r.changed <- struct{}{}
}

func (r *router) Adopt(rec *handoff.Record, fd int, from *Link) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.adopting != nil {
		r.adopting()
	}
	if r.refuse {
		return false
	}
	r.arrived[rec.Session] = fd
	from.Ack(rec.Session)
	return true
}

func (r *router) Own(session string) { r.change(func() { r.owned = append(r.owned, session) }) }

func (r *router) Disown(session string) {
	r.change(func() {
		r.disowned = append(r.disowned, session)
		handoff.CloseFDs([]int{r.arrived[session]})
		delete(r.arrived, session)
	})
}

func (r *router) Cancel(key handoff.CancelKey) {
	r.change(func() { r.canceled = append(r.canceled, key) })
}

func (r *router) Sessions() []string {
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		<-hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.owned)
}

// set changes what the router does or has.
func (r *router) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// await waits until a condition of the router holds.
func (r *router) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		ok := holds()
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-r.changed:
		case <-deadline:
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

// stage is a server with its router.
type stage struct {
	*router
	s    *Server
	path string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	st := &stage{router: newRouter(), path: filepath.Join(t.TempDir(), "router.sock")}
	st.s = NewServer("7", st.router, slog.New(slog.NewTextHandler(t.Output(), nil)))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: st.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- st.s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		st.s.Close()
		for _, fd := range st.arrived {
			handoff.CloseFDs([]int{fd})
		}
	})
	return st
}

// listener is one listener's end of the connection.
type listener struct {
	t *testing.T
	*handoff.Conn
	raw *net.UnixConn
}

func (st *stage) dial(t *testing.T) *listener {
	t.Helper()
	u, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: st.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if err := u.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	l := &listener{t, handoff.NewConn(u), u}
	t.Cleanup(func() { l.Close() })
	return l
}

// connect dials and exchanges greetings.
func (st *stage) connect(t *testing.T) (*listener, handoff.Hello) {
	t.Helper()
	l := st.dial(t)
	l.hello(handoff.ProtocolVersion)
	var h handoff.Hello
	l.expect(handoff.TypeHello, &h)
	return l, h
}

func (l *listener) hello(version int) {
	l.t.Helper()
	if err := l.Send(handoff.TypeHello, handoff.Hello{V: version, Service: rundir.Listener, ID: "1"}); err != nil {
		l.t.Fatal(err)
	}
}

// expect receives a message of the type.
func (l *listener) expect(typ handoff.Type, body any) {
	l.t.Helper()
	m, err := l.Receive()
	if err != nil {
		l.t.Fatalf("instead of a %q message: %v", typ, err)
	}
	handoff.CloseFDs(m.FDs)
	if m.Type != typ {
		l.t.Fatalf("received %q %s; want %q", m.Type, m.Body, typ)
	}
	if err := m.Unmarshal(body); err != nil {
		l.t.Fatal(err)
	}
}

// closed expects the router to end the connection.
func (l *listener) closed() {
	l.t.Helper()
	m, err := l.Receive()
	if err == nil {
		l.t.Fatalf("received %q %s; want the end of the connection", m.Type, m.Body)
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		l.t.Fatalf("%v; want the end of the connection", err)
	}
}

// session hands a session over and gives the client's end of its socket. The
// listener's own copy is closed.
func (l *listener) session(id string, copies int) (client int) {
	l.t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	rec := &handoff.Record{Session: id, User: "u", Database: "d", Cancel: handoff.CancelKey{PID: 1, Secret: []byte{1}}}
	if err := l.SendSession(rec, slices.Repeat([]int{fds[1]}, copies)...); err != nil {
		l.t.Fatal(err)
	}
	_ = unix.Close(fds[1])
	l.t.Cleanup(func() { _ = unix.Close(fds[0]) })
	return fds[0]
}

// abandoned waits for the end of the client's socket: every copy is closed.
func abandoned(t *testing.T, client int) {
	t.Helper()
	if err := unix.SetsockoptTimeval(client, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)}); err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if n, err := unix.Read(client, b[:]); n != 0 || err != nil {
		t.Fatalf("the client's socket is still open somewhere: %d, %v", n, err)
	}
}

func TestHello(t *testing.T) {
	st := newStage(t)
	st.set(func() { st.owned = []string{"a", "b"} })
	_, h := st.connect(t)
	if h.V != handoff.ProtocolVersion || h.Service != rundir.Router || h.ID != "7" || !slices.Equal(h.Sessions, []string{"a", "b"}) {
		t.Errorf("%+v", h)
	}
	other := st.dial(t)
	other.hello(handoff.ProtocolVersion + 1)
	other.closed()
	rude := st.dial(t)
	if err := rude.Send(handoff.TypeCancel, handoff.CancelKey{PID: 1}); err != nil {
		t.Fatal(err)
	}
	rude.closed()
	st.set(func() {
		if len(st.canceled) > 0 {
			t.Error("a cancel request before the greeting was obeyed")
		}
	})
}

func TestSessionAdopted(t *testing.T) {
	st := newStage(t)
	l, _ := st.connect(t)
	client := l.session("s1", 1)
	var ref handoff.SessionRef
	l.expect(handoff.TypeAck, &ref)
	if ref.Session != "s1" {
		t.Errorf("acknowledged %+v", ref)
	}
	st.await(t, "the session is owned", func() bool { return slices.Equal(st.owned, []string{"s1"}) })
	st.set(func() {
		if _, err := unix.Write(st.arrived["s1"], []byte("hi")); err != nil {
			t.Fatal(err)
		}
	})
	b := make([]byte, 4)
	if n, err := unix.Read(client, b); err != nil || string(b[:n]) != "hi" {
		t.Errorf("the client reads %q, %v", b[:n], err)
	}
	if err := l.Send(handoff.TypeCancel, handoff.CancelKey{PID: 5, Secret: []byte{6}}); err != nil {
		t.Fatal(err)
	}
	st.await(t, "the cancel request is there", func() bool { return len(st.canceled) == 1 && st.canceled[0].PID == 5 })
}

func TestSessionRefused(t *testing.T) {
	st := newStage(t)
	st.set(func() { st.refuse = true })
	l, _ := st.connect(t)
	client := l.session("s1", 1)
	var ref handoff.SessionRef
	l.expect(handoff.TypeRefuse, &ref)
	if ref.Session != "s1" || ref.Reason == "" {
		t.Errorf("refused %+v", ref)
	}
	abandoned(t, client)
	// The connection goes on.
	st.set(func() { st.refuse = false })
	l.session("s2", 1)
	l.expect(handoff.TypeAck, &ref)
}

// Messages that cannot be a session's leave no descriptor behind.
func TestBadMessagesLeakNothing(t *testing.T) {
	st := newStage(t)
	t.Run("too many descriptors", func(t *testing.T) {
		l, _ := st.connect(t)
		client := l.session("s1", 2)
		var ref handoff.SessionRef
		l.expect(handoff.TypeRefuse, &ref)
		if ref.Session != "s1" || !strings.Contains(ref.Reason, "2 descriptors") {
			t.Errorf("refused %+v", ref)
		}
		abandoned(t, client)
	})
	t.Run("no descriptor", func(t *testing.T) {
		l, _ := st.connect(t)
		l.session("s1", 0)
		var ref handoff.SessionRef
		l.expect(handoff.TypeRefuse, &ref)
	})
	for name, typ := range map[string]handoff.Type{
		"unreadable record": handoff.TypeSession, "unknown message": '?', "descriptor with a cancel request": handoff.TypeCancel,
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := st.connect(t)
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fds[0])
			if err := l.Send(typ, "nonsense", fds[1]); err != nil && !errors.Is(err, unix.EPIPE) { // it may be refused at once
				t.Fatal(err)
			}
			_ = unix.Close(fds[1])
			abandoned(t, fds[0])
			if typ == handoff.TypeSession {
				l.closed() // the listener gives what is pending to another router
				return
			}
			l.session("s1", 1)
			var ref handoff.SessionRef
			l.expect(handoff.TypeAck, &ref)
		})
	}
	t.Run("descriptor with the greeting", func(t *testing.T) {
		l := st.dial(t)
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fds[0])
		if err := l.Send(handoff.TypeHello, handoff.Hello{V: handoff.ProtocolVersion}, fds[1]); err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(fds[1])
		abandoned(t, fds[0])
	})
	t.Run("torn", func(t *testing.T) {
		l, _ := st.connect(t)
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fds[0])
		if _, _, err := l.raw.WriteMsgUnix([]byte{0, 0, 0, 99, byte(handoff.TypeSession), '{'}, unix.UnixRights(fds[1]), nil); err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(fds[1])
		l.Close()
		abandoned(t, fds[0])
	})
}

// Every listener hears of every end: limits are kept by each of them.
func TestEndedReachesEveryListener(t *testing.T) {
	st := newStage(t)
	a, _ := st.connect(t)
	b, _ := st.connect(t)
	st.s.Ended("s1")
	for _, l := range []*listener{a, b} {
		var e handoff.Ended
		l.expect(handoff.TypeEnded, &e)
		if !slices.Equal(e.Sessions, []string{"s1"}) {
			t.Errorf("ended %v", e.Sessions)
		}
	}
	// One goes, the other still hears.
	a.Close()
	st.s.Ended("s2")
	var e handoff.Ended
	b.expect(handoff.TypeEnded, &e)
	// It comes back: what has ended meanwhile is not in the list of what is here.
	st.set(func() { st.owned = []string{"s3"} })
	again, h := st.connect(t)
	if !slices.Equal(h.Sessions, []string{"s3"}) {
		t.Errorf("the list after a reconnect is %v", h.Sessions)
	}
	st.s.Ended("s3")
	again.expect(handoff.TypeEnded, &e)
	if !slices.Equal(e.Sessions, []string{"s3"}) {
		t.Errorf("ended %v", e.Sessions)
	}
}

// A session that ends while the greeting is being made is in the greeting's list.
// Heard of before the greeting, its end would be forgotten, and the session counted
// for ever.
func TestEndedDuringTheGreeting(t *testing.T) {
	st := newStage(t)
	hold := make(chan struct{})
	st.set(func() { st.owned, st.hold = []string{"s1"}, hold })
	l := st.dial(t)
	l.hello(handoff.ProtocolVersion)
	for linked := false; !linked; { // until the connection is known
		st.s.mu.Lock()
		linked = len(st.s.links) > 0
		st.s.mu.Unlock()
	}
	st.s.Ended("s1")
	close(hold)
	var h handoff.Hello
	l.expect(handoff.TypeHello, &h)
	if !slices.Equal(h.Sessions, []string{"s1"}) {
		t.Errorf("the greeting lists %v", h.Sessions)
	}
	var e handoff.Ended
	l.expect(handoff.TypeEnded, &e)
}

// A session whose acknowledgement cannot leave stays with the listener.
func TestDisowned(t *testing.T) {
	st := newStage(t)
	l, _ := st.connect(t)
	gone := make(chan struct{})
	st.set(func() { st.adopting = func() { <-gone } })
	client := l.session("s1", 1)
	l.Close()
	close(gone)
	st.await(t, "the session is left to the listener", func() bool { return slices.Equal(st.disowned, []string{"s1"}) })
	abandoned(t, client)
	st.set(func() {
		if len(st.owned) > 0 {
			t.Errorf("%v are owned", st.owned)
		}
	})
}

func TestCloseEndsConnections(t *testing.T) {
	st := newStage(t)
	l, _ := st.connect(t)
	st.s.Close()
	l.closed()
}

// The protocol is JSON with known names: another release must be able to read it.
func TestGreetingOnTheWire(t *testing.T) {
	st := newStage(t)
	l := st.dial(t)
	l.hello(handoff.ProtocolVersion)
	m, err := l.Receive()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(m.Body, &got); err != nil {
		t.Fatal(err)
	}
	if got["v"] != float64(1) || got["service"] != "router" || got["id"] != "7" {
		t.Errorf("%s", m.Body)
	}
}

// Connections that come and go leave nothing open.
func TestNoDescriptorsLeft(t *testing.T) {
	st := newStage(t)
	l, _ := st.connect(t)
	before := openFDs(t)
	for range 20 {
		other, _ := st.connect(t)
		other.session("x", 1)
		var ref handoff.SessionRef
		other.expect(handoff.TypeAck, &ref)
		st.await(t, "the session is owned", func() bool { return slices.Contains(st.owned, "x") })
		st.set(func() {
			handoff.CloseFDs([]int{st.arrived["x"]})
			delete(st.arrived, "x")
			st.owned = nil
		})
		other.Close()
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		st.s.mu.Lock()
		n := len(st.s.links)
		st.s.mu.Unlock()
		// The clients' ends are closed when the test ends.
		if n == 1 && openFDs(t) <= before+20 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d links and %d descriptors more", n-1, openFDs(t)-before-20)
		}
	}
	st.s.Ended("y")
	var e handoff.Ended
	l.expect(handoff.TypeEnded, &e)
}

func openFDs(t *testing.T) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(es)
}
