package sibling

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Listener is where siblings connect.
type Listener interface {
	AcceptUnix() (*net.UnixConn, error)
	Close() error
}

// Parked are the sessions that are parked here (routers.Fleet).
type Parked interface {
	// Receive takes a session and acknowledges it over the connection by which it has come,
	// or refuses it.
	Receive(c *handoff.Conn, m *handoff.Message) error
	// CancelParked has a cancel request acted on if its session is parked here, and calls
	// over, with whether it is, when the request can stop nothing any more, at the end of ctx
	// at the latest. It may return later.
	CancelParked(ctx context.Context, key handoff.CancelKey, over func(found bool))
	LeaveParked(sessions []string)
	// Gone tells of sessions that have ended at another listener.
	Gone(sessions []string)
}

// Host is what siblings are answered with.
type Host struct {
	// Has says what this listener listens on, Share gives duplicates of the sockets, which
	// are closed here.
	Has    handoff.Share
	Share  func() (kinds []string, fds []int, err error)
	Parked Parked
	Log    *slog.Logger
}

// Serve answers siblings until ctx ends.
func (h *Host) Serve(ctx context.Context, l Listener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer l.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		u, err := l.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				u.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept listener: %w", err)
		}
		wg.Go(func() {
			defer u.Close()
			if err := h.converse(ctx, u); err != nil && !errors.Is(err, io.EOF) {
				h.Log.Warn("another listener was not answered", obs.KeyError, err)
			}
		})
	}
}

// converse deals with what one sibling has to say.
func (h *Host) converse(ctx context.Context, u *net.UnixConn) error {
	if err := rundir.CheckPeer(u); err != nil {
		return err
	}
	if err := u.SetReadDeadline(time.Now().Add(askTimeout)); err != nil {
		return err
	}
	c := handoff.NewConn(u)
	if _, err := c.Greeted(rundir.Listener); err != nil {
		return err
	}
	m, err := c.Receive()
	if err != nil {
		return err
	}
	if m.Type == handoff.TypeSession {
		return h.Parked.Receive(c, m)
	}
	handoff.CloseFDs(m.FDs) // nothing else carries any
	switch m.Type {
	case handoff.TypeCancel:
		var k handoff.Cancel
		if err := m.Unmarshal(&k); err != nil {
			return err
		}
		return h.cancel(ctx, c, &k)
	case handoff.TypeLeave:
		var leave handoff.Leave
		if err := m.Unmarshal(&leave); err != nil {
			return err
		}
		h.Parked.LeaveParked(leave.Sessions)
	case handoff.TypeEnded:
		var ended handoff.Ended
		if err := m.Unmarshal(&ended); err != nil {
			return err
		}
		h.Parked.Gone(ended.Sessions)
	default:
		return h.share(c, m)
	}
	return nil
}

// answerTimeout is how long a cancel request may take here: less than its sender waits for
// the answer (askTimeout).
const answerTimeout = 2 * time.Second

// cancel answers a cancel request.
func (h *Host) cancel(ctx context.Context, c *handoff.Conn, k *handoff.Cancel) (err error) {
	ctx, stop := context.WithTimeout(ctx, answerTimeout)
	defer stop()
	h.Parked.CancelParked(ctx, k.CancelKey, func(found bool) {
		err = c.Send(handoff.TypeCanceled, handoff.Canceled{Request: k.Request, Found: found})
	})
	return err
}

// share gives the listening sockets away, if they are those that are wanted.
func (h *Host) share(c *handoff.Conn, m *handoff.Message) error {
	var want handoff.Share
	if err := m.Unmarshal(&want); err != nil {
		return err
	}
	reply := h.Has
	if m.Type != handoff.TypeShare || want.Listen != reply.Listen || want.ListenUnix != reply.ListenUnix || want.Metrics != reply.Metrics {
		return c.Send(handoff.TypeShare, reply)
	}
	kinds, fds, err := h.Share()
	if err != nil {
		return err
	}
	defer handoff.CloseFDs(fds)
	reply.Kinds = kinds
	return c.Send(handoff.TypeShare, reply, fds...)
}
