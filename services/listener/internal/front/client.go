package front

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/listener/internal/login"
	"github.com/pgpilot/pgpilot/services/listener/internal/refusal"
	"github.com/pgpilot/pgpilot/services/listener/internal/startup"
)

// serve sees one client through.
func (f *Front) serve(ctx context.Context, c startup.Conn) {
	req, err := f.gate.Admit(ctx, c)
	switch {
	case err != nil:
		f.refuse(c, err)
	case req.Cancel != nil:
		f.routers.Cancel(*req.Cancel)
		c.Close() // tells the client that its request is on the way
	default:
		f.handOver(ctx, c, req.Session)
	}
}

// handOver gives the client's socket away.
func (f *Front) handOver(ctx context.Context, c startup.Conn, r *handoff.Record) {
	log := f.log.With(obs.KeySession, r.Session)
	fd, err := handoff.Dup(c)
	if err != nil {
		log.Error("session was not handed over", obs.KeyError, err)
		f.places.Close(r.Session)
		f.refuse(c, noRouter())
		return
	}
	c.Close() // out of this process's epoll set before anybody else reads
	ctx, cancel := context.WithTimeout(ctx, parkTimeout)
	defer cancel()
	if err := f.routers.HandOver(ctx, r, fd); err != nil {
		log.Error("session was not handed over", obs.KeyClient, r.Client, obs.KeyUser, r.User, obs.KeyError, err)
		f.metrics.failures.WithLabelValues("no_router").Inc()
		f.places.Close(r.Session)
		dismiss(fd, noRouter())
	} else {
		log.Debug("session handed over", obs.KeyClient, r.Client, obs.KeyUser, r.User, obs.KeyDatabase, r.Database)
	}
	_ = unix.Close(fd) // a client's socket has no write to lose here
}

func noRouter() *refusal.Refusal {
	return &refusal.Refusal{Code: refusal.CannotConnectNow, Message: "the connection was accepted but no pgpilot router is running to serve it",
		Hint: "Try again in a moment; if this persists, start a router."}
}

// dismiss tells the client and ends the connection for whoever else holds the
// descriptor. The socket is nobody's loop's now, and its send buffer is empty.
func dismiss(fd int, r *refusal.Refusal) {
	if b, err := r.Encode(); err == nil {
		_ = unix.Sendto(fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) // the client may be gone
	}
	_ = unix.Shutdown(fd, unix.SHUT_RDWR)
}

const (
	// answerTimeout bounds the sending of a refusal.
	answerTimeout = time.Second
	// leftover bounds what is read of a client that is refused.
	leftover = 64 << 10
)

// refuse tells the client why, unless it gets no answer, and closes.
func (f *Front) refuse(c startup.Conn, err error) {
	defer c.Close()
	reason := reasonOf(err)
	f.metrics.failures.WithLabelValues(reason).Inc()
	client := c.RemoteAddr().String()
	if _, local := c.(*net.UnixConn); local {
		client = "unix"
	}
	var r *refusal.Refusal
	var d *login.Denied
	switch {
	case errors.Is(err, startup.ErrLeft), errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET):
		f.log.Debug("client left", obs.KeyClient, client)
		return
	case errors.As(err, &d):
		why := "wrong password"
		if !d.Known {
			why = "no such user in the configuration"
		}
		r = d.Refusal
		f.log.Warn("login failed", obs.KeyClient, client, obs.KeyUser, d.User, obs.KeyReason, why)
	case errors.As(err, &r):
		f.log.Info("client refused", obs.KeyClient, client, obs.KeyReason, r.Error(), obs.KeySQLState, r.Code)
	default:
		f.log.Info("client dropped", obs.KeyClient, client, obs.KeyError, err)
		return
	}
	b, err := r.Encode()
	if err != nil {
		f.log.Error("client was not told why it is refused", obs.KeyClient, client, obs.KeyError, err)
		return
	}
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return
	}
	if _, err := c.Write(b); err == nil {
		drain(c)
	}
}

// drain throws away what the client has sent already: closing a socket with unread
// bytes resets the connection, and the client may lose the answer.
func drain(c startup.Conn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 8<<10)
	_ = raw.Control(func(fd uintptr) {
		for range leftover / len(buf) {
			if n, _, err := unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT); err != nil || n <= 0 {
				return
			}
		}
	})
}

// reasonOf gives the label of the metric.
func reasonOf(err error) string {
	var r *refusal.Refusal
	switch {
	case errors.Is(err, startup.ErrLeft), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "left"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case !errors.As(err, &r):
		return "connection"
	}
	switch r.Code {
	case refusal.InvalidPassword:
		return "password"
	case refusal.TooManyConnections:
		return "too_many_clients"
	case refusal.QueryCanceled:
		return "timeout"
	case refusal.ProtocolViolation:
		return "protocol"
	case refusal.InvalidAuthorization:
		return "no_user"
	case refusal.CannotConnectNow:
		return "shutting_down"
	}
	return "unsupported"
}
