package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
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
	arrived  map[string][]int
	wayOut   int
	shed     int
	owned    []string
	disowned []string
	canceled []handoff.CancelKey
	over     []func(found bool) // of those canceled
	leaving  []string
	arrivals []string
	changed  chan struct{}
}

func newRouter() *router {
	return &router{arrived: map[string][]int{}, changed: make(chan struct{}, 1000)}
}

func (r *router) change(f func()) {
	r.mu.Lock()
	f()
	r.mu.Unlock()
	r.changed <- struct{}{}
}

func (r *router) Adopt(rec *handoff.Record, fds []int, from *Link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.adopting != nil {
		r.adopting()
	}
	var err error
	switch {
	case r.refuse:
		err = errors.New("the router is stopping")
	case len(fds) != 1:
		err = fmt.Errorf("it came with %d descriptors instead of 1", len(fds))
	}
	if err != nil {
		handoff.CloseFDs(fds)
		from.Refuse(rec.Session, err)
		return
	}
	r.arrived[rec.Session] = fds
	from.Ack(rec.Session)
}

func (r *router) Shed(n int) { r.change(func() { r.shed += n }) }

func (r *router) Arrived(sessions []string) {
	r.change(func() { r.arrivals = append(r.arrivals, sessions...) })
}

func (r *router) WayOut() { r.change(func() { r.wayOut++ }) }

func (r *router) Own(session string, _ *Link) {
	r.change(func() { r.owned = append(r.owned, session) })
}

func (r *router) Disown(session string, _ *Link) {
	r.change(func() {
		r.disowned = append(r.disowned, session)
		handoff.CloseFDs(r.arrived[session])
		delete(r.arrived, session)
	})
}

func (r *router) Cancel(key handoff.CancelKey, over func(found bool)) {
	r.change(func() { r.canceled, r.over = append(r.canceled, key), append(r.over, over) })
}

func (r *router) Leave(sessions []string) {
	r.change(func() { r.leaving = append(r.leaving, sessions...) })
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
		for _, fds := range st.arrived {
			handoff.CloseFDs(fds)
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
	client, far := handofftest.Ends(l.t)
	rec := &handoff.Record{Session: id, User: "u", Database: "d", Cancel: handoff.CancelKey{PID: 1, Secret: []byte{1}}}
	if err := l.SendSession(rec, slices.Repeat([]int{far}, copies)...); err != nil {
		l.t.Fatal(err)
	}
	_ = unix.Close(far)
	return client
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

func openFDs(t *testing.T) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(es)
}
