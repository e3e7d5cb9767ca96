package front

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/services/listener/internal/login"
	"github.com/pgpilot/pgpilot/services/listener/internal/startup"
)

// hooks is a gate through which every client has come with a cancel request, and the
// routers that get it.
type hooks struct{ cancelled chan struct{} }

func (hooks) Admit(context.Context, *startup.Client) (*login.Request, error) {
	return &login.Request{Cancel: &handoff.CancelKey{}}, nil
}
func (hooks) HandOver(context.Context, *handoff.Record, int) error { return nil }
func (hooks) Leave(context.Context, []string)                      {}
func (hooks) Close(string)                                         {}
func (h hooks) Cancel(_ context.Context, _ handoff.CancelKey, over func(bool)) {
	over(true)
	h.cancelled <- struct{}{}
}

// client is a connection without a socket.
type client struct{ net.Conn }

func (client) CloseWrite() error                     { return nil }
func (client) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }
func accepted() net.Conn                             { ours, _ := net.Pipe(); return client{ours} }
func failing(errno syscall.Errno) func() (net.Conn, error) {
	return func() (net.Conn, error) {
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: os.NewSyscallError("accept4", errno)}
	}
}

// script is a listening socket of which each accept is written down, and when it was
// called. At its end it is closed.
type script struct {
	steps []func() (net.Conn, error)
	at    []time.Time
}

func (s *script) Accept() (net.Conn, error) {
	if s.at = append(s.at, time.Now()); len(s.at) > len(s.steps) {
		return nil, net.ErrClosed
	}
	return s.steps[len(s.at)-1]()
}
func (s *script) Close() error   { return nil }
func (s *script) Addr() net.Addr { return &net.UnixAddr{Name: "/tmp/.s.PGSQL.6432", Net: "unix"} }

func (s *script) pauses() (out []time.Duration) {
	for i := range s.at[1:] {
		out = append(out, s.at[i+1].Sub(s.at[i]))
	}
	return out
}

// A client that has left before it was accepted, and a machine without descriptors or memory
// for one, keep nobody else out: it is tried again, less and less often while it goes on.
func TestAcceptOutlivesErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := hooks{make(chan struct{}, 2)}
		f := New(h, h, h, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
		errnos := []syscall.Errno{unix.ECONNABORTED, unix.ENFILE, unix.EMFILE, unix.ENOBUFS, unix.ENOMEM, unix.EPROTO, unix.EPERM, unix.EINTR, unix.ENFILE, unix.ENFILE}
		come := func() (net.Conn, error) { return accepted(), nil }
		var s script
		for _, e := range errnos {
			s.steps = append(s.steps, failing(e))
		}
		s.steps = append(s.steps, come, failing(unix.ECONNABORTED), come)
		var clients sync.WaitGroup
		f.accept(t.Context(), t.Context(), &s, &clients)
		clients.Wait()
		if len(h.cancelled) != 2 {
			t.Errorf("%d clients served of 2", len(h.cancelled))
		}
		want := []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 0, 5, 0}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if got := s.pauses(); !slices.Equal(got, want) {
			t.Errorf("pauses %v, want %v", got, want)
		}
		if n := strings.Count(log.String(), "clients cannot be accepted"); n != len(errnos)+1 {
			t.Errorf("the log tells of %d failures of %d", n, len(errnos)+1)
		}
	})
}
