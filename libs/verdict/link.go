package verdict

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Pauses between attempts to reach a classifier that is listed but does not
// accept connections, as in the moment after it was killed.
const (
	firstRedial = 20 * time.Millisecond
	lastRedial  = 250 * time.Millisecond
)

// link is the connection to one classifier. All fields but the first group are
// guarded by Client.mu.
type link struct {
	c        *Client
	instance rundir.Instance
	log      *slog.Logger
	stop     context.CancelFunc
	// kick tells the writer that out is not empty.
	kick chan struct{}

	up      bool
	retired bool // no longer listed: finish what was asked, ask no more
	// version is the newest that the classifier has been seen to understand.
	version Version
	// vain is when it last answered without a verdict; zero if its last answer was one.
	vain time.Time
	// out has the frames that are not yet written.
	out []byte
	// asks has the questions without an answer by id, also those that have timed
	// out: a classifier that does not answer must not be given more and more.
	asks map[uint64]*ask
}

// watch keeps a link to each listed classifier. It owns the links' goroutines
// through Client.links.
func (c *Client) watch() {
	c.opts.Dir.Watch(c.ctx, rundir.Classifier, c.opts.Log, c.listed)
}

// listed starts links to new classifiers and retires those to gone ones.
func (c *Client) listed(now []rundir.Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	present := make(map[string]bool, len(now))
	for _, in := range now {
		present[in.ID] = true
		if c.state.links[in.ID] != nil {
			continue
		}
		ctx, stop := context.WithCancel(c.ctx)
		l := &link{c: c, instance: in, log: c.opts.Log.With(obs.KeyPeer, in.Service+"."+in.ID), stop: stop,
			kick: make(chan struct{}, 1), asks: make(map[uint64]*ask)}
		c.state.links[in.ID] = l
		c.links.Go(func() { l.run(ctx) })
	}
	for id, l := range c.state.links {
		if !present[id] {
			delete(c.state.links, id)
			l.retired = true
			l.leaveLocked()
		}
	}
}

// leaveLocked ends a retired link that has nothing more to hear.
func (l *link) leaveLocked() {
	if l.retired && len(l.asks) == 0 {
		l.stop()
	}
}

// run connects, and connects again, until the link is stopped.
func (l *link) run(ctx context.Context) {
	defer l.stop()
	wait := firstRedial
	for ctx.Err() == nil {
		conn, err := l.c.dial(ctx, l.instance.Socket)
		if err != nil {
			l.log.Debug("classifier does not accept connections", obs.KeyError, err)
			pause(ctx, wait)
			wait = min(2*wait, lastRedial)
			continue
		}
		start := time.Now()
		err = l.serve(ctx, conn)
		if ctx.Err() == nil {
			l.log.Info("connection to classifier is lost", obs.KeyError, err)
			if time.Since(start) > lastRedial {
				wait = firstRedial
			}
			// A peer that accepts and hangs up at once must not be dialled in a loop.
			pause(ctx, wait)
			wait = min(2*wait, lastRedial)
		}
	}
}

// serve uses one connection until it breaks or ctx ends, and closes it.
func (l *link) serve(ctx context.Context, conn net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel()
	unhook := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		if unhook() {
			conn.Close()
		}
	}()

	l.setUp()
	defer l.setDown()
	writer.Go(func() {
		defer cancel() // unblocks the reader
		l.write(ctx, conn)
	})
	l.log.Debug("connected to classifier")
	r := NewResponseReader(conn)
	for {
		id, v, err := r.Next()
		if err != nil && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrNoVerdict) {
			return err
		}
		l.answer(id, r.Version(), v, err)
	}
}

// write sends what is queued, whole batches at a time.
func (l *link) write(ctx context.Context, conn net.Conn) {
	var batch []byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.kick:
		}
		l.c.mu.Lock()
		batch, l.out = l.out, batch[:0]
		l.c.mu.Unlock()
		if _, err := conn.Write(batch); err != nil {
			return
		}
		if cap(batch) > keepBuffer {
			batch = nil
		}
	}
}

func (l *link) pushLocked(id uint64, a *ask) error {
	out, err := l.version.appendRequest(l.out, id, &a.req)
	if err != nil {
		return err
	}
	l.out, a.version = out, l.version
	l.asks[id] = a
	select {
	case l.kick <- struct{}{}:
	default:
	}
	return nil
}

// answer delivers a verdict, or the failure of one question. An answer of an older
// version than its question is none: the classifier has not understood the question,
// and is asked again in its own version.
func (l *link) answer(id uint64, version Version, v Verdict, err error) {
	c := l.c
	c.mu.Lock()
	a := l.asks[id]
	if a == nil {
		c.mu.Unlock()
		l.log.Warn("classifier answered a question that was not asked")
		return
	}
	delete(l.asks, id)
	if version < a.version && version.understood() {
		l.version = min(l.version, version)
		if a.deliver != nil {
			c.state.lastID++
			if err := l.pushLocked(c.state.lastID, a); err != nil {
				c.failLocked(a, err)
			}
		}
		l.leaveLocked()
		c.mu.Unlock()
		return
	}
	l.vain = time.Time{}
	if err != nil {
		l.vain = time.Now()
	}
	l.leaveLocked()
	deliver := c.takeLocked(a)
	c.mu.Unlock()
	switch {
	case deliver != nil && err != nil:
		deliver(Unclassified(), err)
	case deliver != nil:
		deliver(v, nil)
	case err == nil && c.opts.Late != nil:
		c.opts.Late(a.req.Database, a.req.Key, v)
	}
}

func (l *link) setUp() {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.up = true
	l.out = nil
	l.version = Newest
	for database := range l.c.state.followed {
		l.followLocked(database)
	}
}

// setDown puts the unanswered questions to another classifier, once each.
func (l *link) setDown() {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	l.up = false
	asks := l.asks
	l.asks = make(map[uint64]*ask)
	l.out = nil
	for _, a := range asks {
		switch {
		case a.deliver == nil:
		case c.state.closed:
			c.failLocked(a, ErrClosed)
		case a.retried || !c.anyUpLocked():
			c.failLocked(a, ErrLost)
		default:
			a.retried = true
			c.sendLocked(a)
		}
	}
	l.leaveLocked()
}

func (c *Client) anyUpLocked() bool {
	for _, l := range c.state.links {
		if l.up {
			return true
		}
	}
	return false
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
