package sibling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	for _, in := range NewKin(dir, id, log).others() {
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
	c, err := call(ctx, socket, id)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
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

// call dials a sibling and greets it. It gets askTimeout for everything that it says.
func call(ctx context.Context, socket, id string) (*handoff.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	u, err := rundir.Dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	c := handoff.NewConn(u)
	err = u.SetReadDeadline(time.Now().Add(askTimeout))
	if err == nil {
		err = c.Send(handoff.TypeHello, handoff.Hello{V: handoff.ProtocolVersion, Service: rundir.Listener, ID: id})
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
