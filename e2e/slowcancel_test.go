package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
)

// slowToCancel stands before a server and keeps cancel requests back until they are
// released.
type slowToCancel struct {
	target string
	l      net.Listener
	wg     sync.WaitGroup
	// held is told of each cancel request; released is closed when they may go on.
	held     chan struct{}
	released chan struct{}

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
}

func slowlyCanceling(t *testing.T, m *lab.Member) *slowToCancel {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &slowToCancel{target: fmt.Sprintf("%s:%d", m.Host, m.Port), l: l, held: make(chan struct{}, 10), released: make(chan struct{})}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.serve(t, c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.release()
		s.mu.Lock()
		for _, c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *slowToCancel) release() {
	select {
	case <-s.released:
	default:
		close(s.released)
	}
}

func (s *slowToCancel) serve(t *testing.T, client net.Conn) {
	server, err := net.Dial("tcp", s.target)
	if err != nil {
		t.Errorf("connect to the server: %v", err)
		client.Close()
		return
	}
	s.mu.Lock()
	s.conns = append(s.conns, client, server)
	s.mu.Unlock()
	defer client.Close()
	defer server.Close()
	if err := s.open(client, server); err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			t.Logf("a connection to %s did not open: %v", s.target, err)
		}
		return
	}
	var toServer sync.WaitGroup
	toServer.Go(func() {
		_, _ = io.Copy(server, client) // either end may go at any time
		_ = server.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(client, server)
	client.Close()
	toServer.Wait()
}

// open passes on what comes before the protocol proper: a request for encryption, which
// the server declines, and the first packet: a cancel request when it is released
// (PostgreSQL documentation: "Message Formats").
func (s *slowToCancel) open(client, server net.Conn) error {
	const askForTLS, cancel = 1234<<16 | 5679, 1234<<16 | 5678
	for {
		packet := make([]byte, 8)
		if _, err := io.ReadFull(client, packet); err != nil {
			return err
		}
		code := binary.BigEndian.Uint32(packet[4:])
		if code == cancel {
			s.held <- struct{}{}
			<-s.released
		}
		if _, err := server.Write(packet); err != nil || code != askForTLS {
			return err
		}
		if _, err := io.ReadFull(server, packet[:1]); err != nil {
			return err
		}
		if _, err := client.Write(packet[:1]); err != nil {
			return err
		}
	}
}

// Drivers run the next statement as soon as the connection of their cancel request is
// closed: by then it must be over, or it would stop that one (rule 31).
func TestCancelReturnsWhenItIsOver(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	slow := slowlyCanceling(t, cluster.Primary())
	r := newRig(t, cluster, func(c *config.Config) { c.Primary.Address = slow.l.Addr().String() })
	c, other := r.connect(), r.connect()
	c.must("CREATE TABLE nothing (a int)")
	done := make(chan error, 1)
	go func() {
		_, err := c.run("WITH w AS (DELETE FROM nothing) SELECT pg_sleep(600)")
		done <- err
	}()
	awaitSleep(t, []*client{direct(t, cluster.Primary())})
	over := make(chan error, 1)
	go func() { over <- c.conn.CancelRequest(timeout(t)) }()
	<-slow.held
	for range 100 {
		other.must("DELETE FROM nothing WHERE a = 1")
	}
	select {
	case err := <-over:
		t.Errorf("the cancel request is over (%v) while the server has not got it", err)
		over <- err
	default:
	}
	slow.release()
	if err := <-over; err != nil {
		t.Errorf("cancel request: %v", err)
	}
	if err := <-done; sqlstate(err) != "57014" {
		t.Errorf("the canceled statement: %v", err)
	}
	c.must("DELETE FROM nothing")
}

// A cancel request that comes while the one before it is under way stops the statement that
// its client has sent since (rule 31).
func TestCancelRequestsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	slow := slowlyCanceling(t, cluster.Primary())
	r := newRig(t, cluster, func(c *config.Config) { c.Primary.Address = slow.l.Addr().String() })
	c, other := r.connect(), r.connect()
	other.must("CREATE TABLE nothing (a int)")
	holder := direct(t, cluster.Primary())
	holder.must("SELECT pg_advisory_lock(1)")
	c.must("BEGIN; DELETE FROM nothing")
	first := make(chan error, 1)
	go func() {
		_, err := c.run("SELECT pg_advisory_xact_lock(1)")
		first <- err
	}()
	awaitLock(t, holder)
	over := make(chan error, 2)
	cancel := func() { over <- c.conn.CancelRequest(timeout(t)) }
	go cancel()
	<-slow.held
	holder.must("SELECT pg_advisory_unlock(1)")
	if err := <-first; err != nil {
		t.Fatalf("the first statement: %v", err)
	}
	c.sends("SELECT pg_sleep(600)")
	go cancel()
	for range 100 {
		other.must("DELETE FROM nothing WHERE a = 1")
	}
	slow.release()
	for range 2 {
		if err := <-over; err != nil {
			t.Errorf("cancel request: %v", err)
		}
	}
	if code := c.answered(); code != "57014" {
		t.Errorf("the second statement: %q", code)
	}
	c.must("ROLLBACK")
}

// sends sends a simple query without waiting for the answer.
func (c *client) sends(sql string) {
	c.t.Helper()
	c.conn.Frontend().SendQuery(&pgproto3.Query{String: sql})
	if err := c.conn.Frontend().Flush(); err != nil {
		c.t.Fatal(err)
	}
}

// answered reads the answer to that, and gives the SQLSTATE of its error.
func (c *client) answered() (code string) {
	c.t.Helper()
	if err := c.conn.Conn().SetReadDeadline(time.Now().Add(patience)); err != nil {
		c.t.Fatal(err)
	}
	for {
		m, err := c.conn.Frontend().Receive()
		if err != nil {
			c.t.Fatal(err)
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			code = m.Code
		case *pgproto3.ReadyForQuery:
			if err := c.conn.Conn().SetReadDeadline(time.Time{}); err != nil {
				c.t.Fatal(err)
			}
			return code
		}
	}
}

// A cancel request right behind its statement finds that while its connection is given
// what the session has set: it is for the statement all the same (rule 31).
func TestCancelWhileSettingsAreGiven(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), narrow(1))
	c, other := r.connect(), r.connect()
	other.must("CREATE TABLE nothing (a int)")
	r.caughtUp()
	c.must("SET work_mem = '1MB'")
	other.must("SET work_mem = '2MB'")
	for _, sql := range []string{"SELECT pg_sleep(600)", "WITH w AS (DELETE FROM nothing) SELECT pg_sleep(600)"} {
		for range 30 {
			other.must("SELECT 1")
			other.must("DELETE FROM nothing")
			c.sends(sql)
			c.cancel()
			if code := c.answered(); code != "57014" {
				t.Fatalf("%s: %q", sql, code)
			}
		}
	}
}
