package front

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/tlsrelay"
	"github.com/pgpilot/pgpilot/services/listener/internal/login"
	"github.com/pgpilot/pgpilot/services/listener/internal/refusal"
	"github.com/pgpilot/pgpilot/services/listener/internal/startup"
)

// serve sees one client through.
func (f *Front) serve(ctx context.Context, c *startup.Client) {
	ctx, g := f.crowd.enter(ctx, c)
	req, err := f.gate.Admit(ctx, c)
	g.known()
	switch {
	case err != nil:
		f.refuse(c, err)
	case req.Cancel != nil:
		// To its client the end of the connection says that the next statement is safe.
		f.routers.Cancel(ctx, *req.Cancel, func(bool) { c.Close() })
	case req.Session.TLS:
		f.handOverRelay(ctx, c, g, req.Session)
	default:
		f.handOver(ctx, c, req.Session)
	}
	f.crowd.leave(g)
}

// handOver gives the client's socket away.
func (f *Front) handOver(ctx context.Context, c *startup.Client, r *handoff.Record) {
	fd, err := handoff.Dup(c)
	if err != nil {
		f.unserved(c, r, err)
		return
	}
	c.Close() // out of this process's epoll set before anybody else reads
	if !f.offer(ctx, r, fd) {
		dismiss(fd, noRouter())
	}
	_ = unix.Close(fd) // a client's socket has no write to lose here
}

// handOverRelay gives one end of a relay away and carries what goes through it until
// the session is over. The client's place among those on their way in is free from
// then on.
func (f *Front) handOverRelay(ctx context.Context, c *startup.Client, g *guest, r *handoff.Record) {
	relay, fd, err := tlsrelay.New(c.Secure())
	if err != nil {
		f.unserved(c, r, err)
		return
	}
	served := f.offer(ctx, r, fd)
	if !served {
		_ = unix.Shutdown(fd, unix.SHUT_RDWR) // a router may still find it in its queue
	}
	_ = unix.Close(fd)
	if !served {
		f.say(c, noRouter())
		relay.Cut()
		return
	}
	f.crowd.leave(g)
	if err := f.relays.run(r.Session, relay); err != nil {
		f.log.Debug("TLS connection failed", obs.KeySession, r.Session, obs.KeyError, err)
	}
}

// unserved ends a session that could not even be offered.
func (f *Front) unserved(c *startup.Client, r *handoff.Record, err error) {
	f.log.Error("session was not handed over", obs.KeySession, r.Session, obs.KeyError, err)
	f.places.Close(r.Session)
	f.refuse(c, noRouter())
}

// offer hands a session with its descriptor to a router and reports whether one has
// it.
func (f *Front) offer(ctx context.Context, r *handoff.Record, fd int) bool {
	log := f.log.With(obs.KeySession, r.Session, obs.KeyClient, r.Client, obs.KeyUser, r.User)
	ctx, cancel := context.WithTimeout(ctx, parkTimeout)
	defer cancel()
	if err := f.routers.HandOver(ctx, r, fd); err != nil {
		log.Error("session was not handed over", obs.KeyError, err)
		f.metrics.failures.WithLabelValues("no_router").Inc()
		f.places.Close(r.Session)
		return false
	}
	log.Debug("session handed over", obs.KeyDatabase, r.Database)
	return true
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
func (f *Front) refuse(c *startup.Client, err error) {
	defer c.Close()
	reason := reasonOf(err)
	f.metrics.failures.WithLabelValues(reason).Inc()
	client := c.RemoteAddr().String()
	if c.Local() {
		client = "unix"
	}
	var r *refusal.Refusal
	var d *login.Denied
	switch {
	case errors.Is(err, startup.ErrLeft), errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET):
		f.log.Debug("client left", obs.KeyClient, client)
		return
	case errors.As(err, &d):
		r = d.Refusal
		f.log.Warn("login failed", obs.KeyClient, client, obs.KeyUser, d.User, obs.KeyReason, d.Why)
	case errors.As(err, &r):
		f.log.Info("client refused", obs.KeyClient, client, obs.KeyReason, r.Error(), obs.KeySQLState, r.Code)
	default:
		f.log.Info("client dropped", obs.KeyClient, client, obs.KeyError, err)
		return
	}
	f.say(c, r)
}

// say sends a refusal to a client that is about to be closed.
func (f *Front) say(c *startup.Client, r *refusal.Refusal) {
	b, err := r.Encode()
	if err != nil {
		f.log.Error("client was not told why it is refused", obs.KeyError, err)
		return
	}
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return
	}
	if _, err := c.Write(b); err != nil {
		return
	}
	if secure, _ := c.Secure(); secure != nil {
		_ = secure.CloseWrite() // the client may be gone
	}
	drain(c)
}

// drain throws away what the client has sent already: closing a socket with unread
// bytes resets the connection, and the client may lose the answer.
func drain(c *startup.Client) {
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
	var h *startup.HandshakeError
	switch {
	case errors.Is(err, startup.ErrLeft), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "left"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.As(err, &h):
		return "tls"
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
