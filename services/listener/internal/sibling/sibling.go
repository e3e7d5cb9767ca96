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

// askTimeout bounds the conversation with one sibling.
const askTimeout = 3 * time.Second

// Ask gives the listening sockets of another listener that listens on the same
// addresses, with what they are; none if there is no such one. The descriptors are the
// caller's.
func Ask(ctx context.Context, dir *rundir.Dir, id string, want handoff.Share, log *slog.Logger) (kinds []string, fds []int) {
	others, err := dir.List(rundir.Listener)
	if err != nil {
		log.Warn("cannot see other listeners", obs.KeyError, err)
		return nil, nil
	}
	for _, in := range others {
		if in.ID == id {
			continue
		}
		got, fds, err := ask(ctx, in.Socket, id, want)
		switch {
		case err != nil:
			log.Warn("another listener does not share its sockets", obs.KeyPeer, in.Service+"."+in.ID, obs.KeyError, err)
		case len(got) > 0:
			log.Info("listening on the sockets of another listener", obs.KeyPeer, in.Service+"."+in.ID, obs.KeyCount, len(fds))
			return got, fds
		}
	}
	return nil, nil
}

func ask(ctx context.Context, socket, id string, want handoff.Share) ([]string, []int, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	u, err := rundir.Dial(ctx, socket)
	if err != nil {
		return nil, nil, err
	}
	if err := u.SetReadDeadline(time.Now().Add(askTimeout)); err != nil {
		return nil, nil, errors.Join(err, u.Close())
	}
	c := handoff.NewConn(u)
	defer c.Close()
	if err := c.Send(handoff.TypeHello, handoff.Hello{V: handoff.ProtocolVersion, Service: rundir.Listener, ID: id}); err != nil {
		return nil, nil, err
	}
	if err := c.Send(handoff.TypeShare, want); err != nil {
		return nil, nil, err
	}
	m, err := c.Receive()
	if err != nil {
		return nil, nil, err
	}
	var got handoff.Share
	err = m.Unmarshal(&got)
	if err == nil && (m.Type != handoff.TypeShare || len(got.Kinds) != len(m.FDs)) {
		err = fmt.Errorf("it answers with a %q message and %d descriptors for %d sockets", m.Type, len(m.FDs), len(got.Kinds))
	}
	if err != nil || len(got.Kinds) == 0 {
		handoff.CloseFDs(m.FDs)
		return nil, nil, err
	}
	return got.Kinds, m.FDs, nil
}

// Listener is where siblings connect.
type Listener interface {
	AcceptUnix() (*net.UnixConn, error)
	Close() error
}

// Serve answers siblings until ctx ends. share gives duplicates of the sockets, which
// are closed here.
func Serve(ctx context.Context, l Listener, has handoff.Share, share func() (kinds []string, fds []int, err error), log *slog.Logger) error {
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
			if err := answer(u, has, share); err != nil && !errors.Is(err, io.EOF) {
				log.Warn("sockets were not shared", obs.KeyError, err)
			}
		})
	}
}

func answer(u *net.UnixConn, has handoff.Share, share func() ([]string, []int, error)) error {
	if err := rundir.CheckPeer(u); err != nil {
		return err
	}
	if err := u.SetReadDeadline(time.Now().Add(askTimeout)); err != nil {
		return err
	}
	c := handoff.NewConn(u)
	m, err := c.Receive()
	if err != nil {
		return err
	}
	handoff.CloseFDs(m.FDs)
	var hello handoff.Hello
	if err := m.Unmarshal(&hello); err != nil {
		return err
	}
	if m.Type != handoff.TypeHello || hello.V != handoff.ProtocolVersion {
		return fmt.Errorf("%s %s speaks version %d instead of %d", hello.Service, hello.ID, hello.V, handoff.ProtocolVersion)
	}
	if m, err = c.Receive(); err != nil {
		return err
	}
	handoff.CloseFDs(m.FDs)
	var want handoff.Share
	if err := m.Unmarshal(&want); err != nil {
		return err
	}
	reply := has
	if m.Type != handoff.TypeShare || want.Listen != has.Listen || want.ListenUnix != has.ListenUnix || want.Metrics != has.Metrics {
		return c.Send(handoff.TypeShare, reply)
	}
	kinds, fds, err := share()
	if err != nil {
		return err
	}
	defer handoff.CloseFDs(fds)
	reply.Kinds = kinds
	return c.Send(handoff.TypeShare, reply, fds...)
}
