package routertest

import (
	"net"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Behaviour on an offered session.
type Behaviour int

const (
	// Take acknowledges and serves it.
	Take Behaviour = iota
	// Cling does so and does not let go of it when it is asked to.
	Cling
	// Refuse sends a refusal.
	Refuse
	// Die closes every connection and the socket.
	Die
	// Hang never answers.
	Hang
	// Hasty reports the session's end, and only then acknowledges it.
	Hasty
)

// Cancel is a cancel request that a router was sent.
type Cancel struct {
	handoff.Cancel
	conn *handoff.Conn
}

// Answer tells the listener that the request is over.
func (c *Cancel) Answer(t testing.TB, found bool) {
	t.Helper()
	if err := c.conn.Send(handoff.TypeCanceled, handoff.Canceled{Request: c.Request, Found: found}); err != nil {
		t.Error(err)
	}
}

// Router is a running fake. Its fields are set before Start and not changed.
type Router struct {
	ID string
	// Behaviour on sessions.
	Behaviour Behaviour
	// Sessions it reports to have when greeted.
	Sessions []string

	// Answers says that it tells that it answers cancel requests.
	Answers bool

	// Offered has every session that arrived, Cancels every cancel request, with what
	// answers it.
	Offered chan *handoff.Record
	Cancels chan Cancel

	t     testing.TB
	claim *rundir.Claim
	wg    sync.WaitGroup
	state struct {
		sync.Mutex
		listener *rundir.Socket
		open     map[interface{ Close() error }]struct{}
		served   map[string]net.Conn // by session
		stopped  bool
	}
}

// Start runs the router in a run directory until the test ends or Kill.
func (r *Router) Start(t testing.TB, dir *rundir.Dir) *Router {
	t.Helper()
	r.t = t
	r.Offered = make(chan *handoff.Record, 1000)
	r.Cancels = make(chan Cancel, 1000)
	r.state.open = map[interface{ Close() error }]struct{}{}
	r.state.served = map[string]net.Conn{}
	var err error
	if r.claim, err = dir.Claim(rundir.Router, r.ID); err != nil {
		t.Fatal(err)
	}
	l, err := r.claim.Listen()
	if err != nil {
		t.Fatal(err)
	}
	r.state.listener = l
	r.wg.Go(func() {
		for {
			u, err := l.AcceptUnix()
			if err != nil {
				return
			}
			c := handoff.NewConn(u)
			if r.track(c) {
				r.wg.Go(func() { r.serve(c) })
			}
		}
	})
	t.Cleanup(r.Kill)
	return r
}

// Kill ends the router and everything it holds at once, as SIGKILL would.
func (r *Router) Kill() {
	r.stop()
	r.wg.Wait()
}

func (r *Router) stop() {
	r.state.Lock()
	defer r.state.Unlock()
	if r.state.stopped {
		return
	}
	r.state.stopped = true
	r.state.listener.Close()
	for c := range r.state.open {
		c.Close()
	}
	if err := r.claim.Close(); err != nil {
		r.t.Error(err)
	}
}

// track remembers what Kill has to close; it closes it and says no after Kill.
func (r *Router) track(c interface{ Close() error }) bool {
	r.state.Lock()
	defer r.state.Unlock()
	if r.state.stopped {
		c.Close()
		return false
	}
	r.state.open[c] = struct{}{}
	return true
}

func (r *Router) untrack(c interface{ Close() error }) {
	r.state.Lock()
	defer r.state.Unlock()
	delete(r.state.open, c)
	c.Close()
}

func (r *Router) serve(c *handoff.Conn) {
	defer r.untrack(c)
	if c.Send(handoff.TypeHello, handoff.Hello{V: handoff.ProtocolVersion, Service: rundir.Router, ID: r.ID, Sessions: r.Sessions, Answers: r.Answers}) != nil {
		return
	}
	for {
		m, err := c.Receive()
		if err != nil {
			return
		}
		switch m.Type {
		case handoff.TypeCancel:
			k := Cancel{conn: c}
			if err := m.Unmarshal(&k.Cancel); err != nil {
				r.t.Error(err)
			}
			r.Cancels <- k
		case handoff.TypeLeave:
			var leave handoff.Leave
			if err := m.Unmarshal(&leave); err != nil {
				r.t.Error(err)
			}
			r.leave(leave.Sessions)
		case handoff.TypeSession:
			if !r.session(c, m) {
				return
			}
		}
	}
}

// leave ends sessions in a router's words.
func (r *Router) leave(sessions []string) {
	r.state.Lock()
	defer r.state.Unlock()
	for _, id := range sessions {
		c := r.state.served[id]
		if c == nil || r.Behaviour == Cling {
			continue
		}
		b := pgproto3.NewBackend(c, c)
		b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01", Message: "terminating connection due to administrator command"})
		_ = b.Flush() // the client may be gone
		_ = c.Close() // talk's read ends
	}
}

// session acts on an offered session; false ends the connection.
func (r *Router) session(c *handoff.Conn, m *handoff.Message) bool {
	defer handoff.CloseFDs(m.FDs)
	rec, err := handoff.DecodeRecord(m.Body)
	if err != nil || len(m.FDs) != 1 {
		r.t.Errorf("router %s: session with %d descriptors: %v", r.ID, len(m.FDs), err)
		return false
	}
	r.Offered <- rec
	switch r.Behaviour {
	case Refuse:
		return c.Send(handoff.TypeRefuse, handoff.SessionRef{Session: rec.Session, Reason: "told to"}) == nil
	case Die:
		r.stop()
		return false
	case Hang:
		return true
	case Hasty:
		_ = unix.Shutdown(m.FDs[0], unix.SHUT_RDWR) // the client may be gone
		return c.Send(handoff.TypeEnded, handoff.Ended{Sessions: []string{rec.Session}}) == nil &&
			c.Send(handoff.TypeAck, handoff.SessionRef{Session: rec.Session}) == nil
	}
	if c.Send(handoff.TypeAck, handoff.SessionRef{Session: rec.Session}) != nil {
		return false
	}
	client, err := adopt(m.FDs[0])
	if err != nil {
		r.t.Errorf("router %s: %v", r.ID, err)
		return false
	}
	r.state.Lock()
	r.state.served[rec.Session] = client
	r.state.Unlock()
	if r.track(client) {
		r.wg.Go(func() {
			r.talk(client, rec)
			r.untrack(client)
			_ = c.Send(handoff.TypeEnded, handoff.Ended{Sessions: []string{rec.Session}}) // the listener may be gone
		})
	}
	return true
}

// adopt duplicates the descriptor into a connection.
func adopt(fd int) (net.Conn, error) {
	dup, err := handoff.Dup(rawFD(fd))
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dup), "client")
	defer f.Close()
	return net.FileConn(f)
}

// talk is a server that knows one answer.
func (r *Router) talk(c net.Conn, rec *handoff.Record) {
	b := pgproto3.NewBackend(c, c)
	b.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "15.0"})
	b.Send(&pgproto3.BackendKeyData{ProcessID: rec.Cancel.PID, SecretKey: rec.Cancel.Secret})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if b.Flush() != nil {
		return
	}
	for {
		m, err := b.Receive()
		if err != nil {
			return
		}
		switch m.(type) {
		case *pgproto3.Query:
			b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("router"), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1}}})
			b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte(r.ID)}})
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			if b.Flush() != nil {
				return
			}
		case *pgproto3.Terminate:
			return
		}
	}
}
