package engine

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/intake"
)

// patience bounds what must happen soon.
const patience = 30 * time.Second

// station is an engine with a listener that takes its sessions, and brings them back.
type station struct {
	*Engine
	*handoff.Conn
	raw     *net.UnixConn
	t       *testing.T
	cluster *lab.Cluster
	// ended and moved are the sessions of which that was said.
	mu           sync.Mutex
	ended, moved []string
}

func newStation(t *testing.T, cluster *lab.Cluster) *station {
	t.Helper()
	st := &station{t: t, cluster: cluster}
	var links atomic.Pointer[intake.Server]
	note := func(to *[]string, session string) {
		st.mu.Lock()
		defer st.mu.Unlock()
		*to = append(*to, session)
	}
	st.Engine = startEngineOf(t, cluster, func(o *Options) {
		o.Ended = func(session string) { note(&st.ended, session) }
		o.Moved = func(session string, _ *intake.Link) { note(&st.moved, session) }
		o.Way = func() *intake.Link {
			if s := links.Load(); s != nil {
				return s.Way()
			}
			return nil
		}
	})
	s := intake.NewServer("7", st.Engine, st.log)
	links.Store(s)
	folder, err := os.MkdirTemp("", "engine-") // t.TempDir has the test's name, for which a socket's path has no room
	if err != nil {
		t.Fatal(err)
	}
	at := &net.UnixAddr{Name: filepath.Join(folder, "s"), Net: "unix"}
	l, err := net.ListenUnix("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		serving.Wait()
		s.Close()
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	u, err := net.DialUnix("unix", nil, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := u.SetReadDeadline(time.Now().Add(10 * patience)); err != nil {
		t.Fatal(err)
	}
	st.Conn, st.raw = handoff.NewConn(u), u
	t.Cleanup(func() { st.Close() })
	if err := st.Send(handoff.TypeHello, handoff.Hello{V: handoff.ProtocolVersion, Service: rundir.Listener, ID: "1", Parks: true, Tells: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Greeted(rundir.Router); err != nil {
		t.Fatal(err)
	}
	st.await("there is a way out", func() bool { return links.Load().Way() != nil })
	return st
}

// on runs something on the loop.
func (st *station) on(f func()) {
	st.t.Helper()
	done := make(chan struct{})
	if !st.Post(func() { f(); close(done) }) {
		st.t.Fatal("the loop has ended")
	}
	<-done
}

func (st *station) await(what string, holds func() bool) {
	st.t.Helper()
	deadline := time.After(patience)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-deadline:
			st.t.Fatalf("it does not come about that %s", what)
		}
	}
}

// leaves has a session leave the router, which goes on, and gives what its listener gets.
func (st *station) leaves(session string) *handoff.Message {
	st.t.Helper()
	st.on(func() {
		st.dismiss(st.clients[session])
		st.runReady()
	})
	return st.gets()
}

// gets gives the next session that is offered to the listener.
func (st *station) gets() *handoff.Message {
	st.t.Helper()
	for {
		m, err := st.Receive()
		if err != nil {
			st.t.Fatal(err)
		}
		if m.Type == handoff.TypeSession {
			return m
		}
		if m.Type == handoff.TypeRefuse {
			st.t.Fatalf("the router has refused %s", m.Body)
		}
	}
}

// answer answers for an offered session and waits until the loop has heard it.
func (st *station) answer(m *handoff.Message, typ handoff.Type) {
	st.t.Helper()
	session := st.record(m).Session
	if err := st.Send(typ, handoff.SessionRef{Session: session, Reason: "told to", Alone: true}); err != nil {
		st.t.Fatal(err)
	}
	st.await("the answer has been heard", func() bool {
		gone := false
		st.on(func() { gone = st.departing[session] == nil })
		return gone
	})
}

// haveMoved waits until so many sessions have moved.
func (st *station) haveMoved(n int) {
	st.t.Helper()
	st.await("they have moved", func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return len(st.moved) == n
	})
}

func (st *station) record(m *handoff.Message) *handoff.Record {
	st.t.Helper()
	rec, err := handoff.DecodeRecord(m.Body)
	if err != nil {
		st.t.Fatal(err)
	}
	return rec
}

// returns brings a session back that has been taken.
func (st *station) returns(m *handoff.Message) {
	st.t.Helper()
	if err := st.SendEncoded(m.Body, m.FDs...); err != nil {
		st.t.Fatal(err)
	}
	handoff.CloseFDs(m.FDs)
}

// hasEnded waits until the session has ended, and is said once to have.
func (st *station) hasEnded(session string) {
	st.t.Helper()
	st.await("the session has ended", func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return slices.Contains(st.ended, session)
	})
	st.on(func() {
		if len(st.clients)+len(st.departing)+len(st.arriving) > 0 {
			st.t.Errorf("there are %d sessions, %d on their way out and %d in", len(st.clients), len(st.departing), len(st.arriving))
		}
		for b := range st.servers {
			if n := st.tracker.Table().Backends[b].Held; n != 0 {
				st.t.Errorf("%d connections to %s are held", n, st.servers[b].name)
			}
		}
	})
	st.mu.Lock()
	defer st.mu.Unlock()
	if n := len(slices.DeleteFunc(slices.Clone(st.ended), func(s string) bool { return s != session })); n != 1 {
		st.t.Errorf("it is said %d times that %s has ended", n, session)
	}
}

// super connects to the primary as a superuser.
func (st *station) super() *pgx.Conn {
	st.t.Helper()
	conn, err := pgx.Connect(st.t.Context(), st.cluster.Primary().SuperDSN())
	if err != nil {
		st.t.Fatal(err)
	}
	st.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// terminate ends a server process.
func (st *station) terminate(su *pgx.Conn, pid uint32) {
	st.t.Helper()
	if _, err := su.Exec(st.t.Context(), "SELECT pg_terminate_backend($1)", pid); err != nil {
		st.t.Fatal(err)
	}
	st.gone(su, pid)
}

// gone waits until a server process has ended.
func (st *station) gone(su *pgx.Conn, pid uint32) {
	st.t.Helper()
	st.await("the server process has ended", func() bool {
		var n int
		if err := su.QueryRow(st.t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid).Scan(&n); err != nil {
			st.t.Fatal(err)
		}
		return n == 0
	})
}

// pid gives the server process that the session works with on the primary.
func (p *peer) pid() string {
	p.t.Helper()
	p.exchange(whichServer)
	return p.value()
}

// whichServer asks the primary for the process that answers.
var whichServer = wire.AppendQuery(nil, "VALUES (pg_backend_pid())")

// value gives the one value of the answer that has come.
func (p *peer) value() string {
	p.t.Helper()
	for at := 0; ; {
		typ, total, err := wire.Header(p.buf[at:])
		if err != nil || total == 0 {
			p.t.Fatalf("no row in %q", p.buf)
		}
		if typ == wire.DataRow { // a count of one column, its length, its value
			return string(p.buf[at+11 : at+total])
		}
		at += total
	}
}

// end gives what the client is told until its connection ends.
func (p *peer) end() string {
	p.t.Helper()
	if err := unix.SetsockoptTimeval(p.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)}); err != nil {
		p.t.Fatal(err)
	}
	said := ""
	for {
		n, err := unix.Read(p.fd, p.buf)
		switch {
		case err == unix.EINTR:
		case err != nil:
			p.t.Fatalf("the connection is still open: %v", err)
		case n == 0:
			return said
		default:
			said += string(p.buf[:n])
		}
	}
}
