package sibling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Kin are the other listeners of this host, whichever run at the moment. It is safe for
// concurrent use.
type Kin struct {
	dir *rundir.Dir
	id  string
	log *slog.Logger
}

// NewKin gives those of the listener instance id.
func NewKin(dir *rundir.Dir, id string, log *slog.Logger) *Kin { return &Kin{dir, id, log} }

// others lists them.
func (k *Kin) others() []rundir.Instance {
	all, err := k.dir.List(rundir.Listener)
	if err != nil {
		k.log.Warn("cannot see other listeners", obs.KeyError, err)
		return nil
	}
	others := all[:0]
	for _, in := range all {
		if in.ID != k.id {
			others = append(others, in)
		}
	}
	return others
}

// each talks to all of them at the same time, and gives how many they are.
func (k *Kin) each(ctx context.Context, what string, talk func(c *conversation) error) int {
	var wg sync.WaitGroup
	others := k.others()
	for _, in := range others {
		wg.Go(func() {
			c, err := call(ctx, in.Socket, k.id)
			if err == nil {
				defer c.Close()
				err = talk(c)
			}
			if err != nil {
				k.log.Warn(what, obs.KeyPeer, in.Service+"."+in.ID, obs.KeyError, err)
			}
		})
	}
	wg.Wait()
	return len(others)
}

// Cancel has a cancel request acted on by the one at which the session is parked, and
// reports whether there is one, and whether there were any others to ask. The request can
// stop nothing any more then that the session runs from now on.
func (k *Kin) Cancel(ctx context.Context, key handoff.CancelKey) (found, others bool) {
	var mu sync.Mutex
	n := k.each(ctx, "another listener was not asked to cancel", func(c *conversation) error {
		if err := c.Send(handoff.TypeCancel, handoff.Cancel{CancelKey: key, Request: 1}); err != nil {
			return err
		}
		m, err := c.Receive()
		if err != nil {
			return err
		}
		handoff.CloseFDs(m.FDs)
		var a handoff.Canceled
		if err := m.Unmarshal(&a); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		found = found || m.Type == handoff.TypeCanceled && a.Found
		return nil
	})
	return found, n > 0
}

// Leave ends those of the sessions that are parked with them.
func (k *Kin) Leave(ctx context.Context, sessions []string) {
	k.each(ctx, "another listener was not asked to end sessions", func(c *conversation) error {
		return c.Send(handoff.TypeLeave, handoff.Leave{Sessions: sessions})
	})
}

// Ended tells them of sessions that have ended here.
func (k *Kin) Ended(ctx context.Context, sessions []string) {
	k.each(ctx, "another listener was not told of the end of sessions", func(c *conversation) error {
		return c.Send(handoff.TypeEnded, handoff.Ended{Sessions: sessions})
	})
}

// Give gives a session to the first that takes it, and reports whether one has. Then the
// descriptors are to be closed, and live on there.
func (k *Kin) Give(ctx context.Context, session string, payload []byte, fds []int) (taken bool) {
	for _, in := range k.others() {
		err := k.give(ctx, in.Socket, session, payload, fds)
		if err == nil {
			return true
		}
		k.log.Info("another listener does not take a session", obs.KeySession, session, obs.KeyPeer, in.Service+"."+in.ID, obs.KeyError, err)
	}
	return false
}

func (k *Kin) give(ctx context.Context, socket, session string, payload []byte, fds []int) error {
	c, err := call(ctx, socket, k.id)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SendEncoded(payload, fds...); err != nil {
		return err
	}
	m, err := c.Receive()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// It cannot acknowledge from now on; what it has said before is read.
		c.Abandon()
		if err := c.extend(); err != nil {
			return err
		}
		m, err = c.Receive()
	}
	if err != nil {
		return err
	}
	handoff.CloseFDs(m.FDs)
	var ref handoff.SessionRef
	switch err := m.Unmarshal(&ref); {
	case err != nil:
		return err
	case m.Type == handoff.TypeAck && ref.Session == session:
		return nil
	}
	return fmt.Errorf("it answers with a %q message: %s", m.Type, ref.Reason)
}
