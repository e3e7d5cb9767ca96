package sibling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Kin are the other listeners of this host, whichever run at the moment. It is safe for
// concurrent use.
type Kin struct {
	// Patience is how long one of them may take to answer for a session that it is given. Who
	// gives one has not much longer to live, and somebody else may be there to take it. NewKin
	// sets it; it is not to be changed once Kin is used.
	Patience time.Duration

	dir *rundir.Dir
	id  string
	log *slog.Logger

	mu sync.Mutex
	// silent are those that have not answered for the last session that they were given,
	// and until when they are given none; guarded by mu.
	silent map[string]time.Time
}

// NewKin gives those of the listener instance id.
func NewKin(dir *rundir.Dir, id string, log *slog.Logger) *Kin {
	return &Kin{Patience: time.Second, dir: dir, id: id, log: log, silent: map[string]time.Time{}}
}

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

// each talks to all of them at the same time, until ctx ends, and gives how many they are.
func (k *Kin) each(ctx context.Context, what string, talk func(c *handoff.Conn) error) int {
	var wg sync.WaitGroup
	others := k.others()
	for _, in := range others {
		wg.Go(func() {
			c, err := call(ctx, in.Socket, k.id)
			if err == nil {
				defer c.Close()
				stop := context.AfterFunc(ctx, func() { c.Close() })
				defer stop()
				err = talk(c)
			}
			if err != nil && ctx.Err() == nil {
				k.log.Warn(what, obs.KeyPeer, in.Service+"."+in.ID, obs.KeyError, err)
			}
		})
	}
	wg.Wait()
	return len(others)
}

// Cancel has a cancel request acted on by the one at which the session is parked, and
// reports whether there is one, and whether there were any others to ask. The request can
// stop nothing any more then that the session runs from now on. When one has said that it
// has the session, the answers of the others are not waited for.
func (k *Kin) Cancel(ctx context.Context, key handoff.CancelKey) (found, others bool) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	n := k.each(ctx, "another listener was not asked to cancel", func(c *handoff.Conn) error {
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
		if m.Type == handoff.TypeCanceled && a.Found {
			mu.Lock()
			defer mu.Unlock()
			found = true
			stop()
		}
		return nil
	})
	return found, n > 0
}

// Leave ends those of the sessions that are parked with them.
func (k *Kin) Leave(ctx context.Context, sessions []string) {
	k.each(ctx, "another listener was not asked to end sessions", func(c *handoff.Conn) error {
		return c.Send(handoff.TypeLeave, handoff.Leave{Sessions: sessions})
	})
}

// Ended tells them of sessions that have ended here.
func (k *Kin) Ended(ctx context.Context, sessions []string) {
	k.each(ctx, "another listener was not told of the end of sessions", func(c *handoff.Conn) error {
		return c.Send(handoff.TypeEnded, handoff.Ended{Sessions: sessions})
	})
}

// shunTime is for how long a listener is given nothing that has not answered in time.
const shunTime = time.Second

// Give gives a session to the first that takes it, and reports whether one has. Then the
// descriptors are to be closed, and live on there. Of those that hang it finds out once, and
// not again for each session. At the end of ctx no other one is asked.
func (k *Kin) Give(ctx context.Context, session string, payload []byte, fds []int) (taken bool) {
	for _, in := range k.others() {
		if ctx.Err() != nil || !k.mayAnswer(in.ID, time.Now()) {
			continue
		}
		err := k.give(context.WithoutCancel(ctx), in.Socket, session, payload, fds)
		k.heard(in.ID, err, time.Now())
		if err == nil {
			return true
		}
		k.log.Info("another listener does not take a session", obs.KeySession, session, obs.KeyPeer, in.Service+"."+in.ID, obs.KeyError, err)
	}
	return false
}

// mayAnswer reports whether there is a point in giving something to the listener. One that
// has not answered is given a single session at a time until it has.
func (k *Kin) mayAnswer(id string, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	until, silent := k.silent[id]
	if silent && now.Before(until) {
		return false
	}
	if silent {
		k.silent[id] = now.Add(k.Patience + shunTime)
	}
	return true
}

// heard notes what has come of a session that a listener was given.
func (k *Kin) heard(id string, err error, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if errors.Is(err, errSilent) {
		k.silent[id] = now.Add(shunTime)
		return
	}
	delete(k.silent, id)
}

// errSilent reports that a listener has not answered in time.
var errSilent = errors.New("it has not answered in time")

func (k *Kin) give(ctx context.Context, socket, session string, payload []byte, fds []int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, k.Patience, errSilent)
	defer cancel()
	c, err := call(ctx, socket, k.id)
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	defer c.Close()
	// It cannot acknowledge from then on; what it has said before is read.
	stop := context.AfterFunc(ctx, c.Abandon)
	defer stop()
	if err := c.SendEncoded(payload, fds...); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	m, err := c.Receive()
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
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
