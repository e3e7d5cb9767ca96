package load

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// scripted is a server that lets everybody in and answers queries as the test says.
type scripted struct {
	dsn string
	// answer gives the answer to a query, ReadyForQuery included; nil hangs up.
	answer func(query string) []byte

	wg    sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn // guarded by mu
}

func serve(t *testing.T, answer func(query string) []byte) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{dsn: "postgres://u@" + l.Addr().String() + "/d?sslmode=disable", answer: answer}
	s.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			s.wg.Go(func() {
				if err := s.talk(conn); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, net.ErrClosed) {
					t.Errorf("the scripted server: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.hangUp()
		s.wg.Wait()
	})
	return s
}

// hangUp closes every connection.
func (s *scripted) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
}

func (s *scripted) talk(conn net.Conn) error {
	defer conn.Close()
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return err
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(ready)
	if err := b.Flush(); err != nil {
		return err
	}
	for {
		m, err := b.Receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.Query:
			out := s.answer(m.String)
			if out == nil {
				return nil
			}
			if _, err := conn.Write(out); err != nil {
				return nil // the client is gone
			}
		case *pgproto3.Terminate:
			return nil
		}
	}
}
