package verdict

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

var (
	// ErrNone says that no classifier is connected.
	ErrNone = errors.New("no classifier is running")
	// ErrTimeout says that the answer took longer than classify.timeout.
	ErrTimeout = errors.New("no answer from a classifier within classify.timeout")
	// ErrBusy says that every classifier has as many questions waiting as it may.
	ErrBusy = errors.New("every classifier has too many statements waiting")
	// ErrLost says that the connection broke before the answer came, and that the
	// question could not be put to another classifier.
	ErrLost = errors.New("connection to the classifier is lost")
	// ErrClosed says that the Client has been closed.
	ErrClosed = errors.New("classifier client is closed")
)

// DefaultMaxOutstanding is how many questions may wait at one classifier.
const DefaultMaxOutstanding = 4096

// maxQueued is how many bytes may wait to be written to one classifier that does
// not read. One statement more than that is always let in.
const maxQueued = 16 << 20

// Options of a Client.
type Options struct {
	// Dir is where classifiers are found.
	Dir *rundir.Dir
	Log *slog.Logger
	// Timeout after which a question is answered with ErrTimeout.
	Timeout time.Duration
	// MaxText is the longest text that is asked about, in bytes; a longer one is
	// answered with ErrTooLong.
	MaxText int
	// MaxOutstanding questions may wait at each classifier; zero means
	// DefaultMaxOutstanding.
	MaxOutstanding int
	// Late, if set, is given verdicts that came after their question's timeout, so
	// that they are known the next time, and the answers that come of Follow. It is called
	// from the client's goroutines.
	Late func(database string, key sqltoken.Key, v Verdict)
}

// Client asks the running classifiers. It is safe for concurrent use.
type Client struct {
	opts   Options
	ctx    context.Context
	cancel context.CancelFunc
	// shunned is that constant, and another time in tests.
	shunned time.Duration
	// dial is rundir.Dial, and another one in tests.
	dial func(ctx context.Context, path string) (net.Conn, error)
	// wake tells the keeper of new failures and of the first deadline.
	wake chan struct{}
	// keeper is the goroutine that delivers failures; links are one goroutine per
	// classifier and the one that watches for them. The keeper outlives the links.
	keeper, links sync.WaitGroup

	mu    sync.Mutex
	state clientState // guarded by mu
}

type clientState struct {
	closed  bool
	timeout time.Duration
	maxText int
	lastID  uint64
	// links has the listed classifiers by instance id.
	links map[string]*link
	// waiting has every *ask that is yet to be delivered, earliest deadline first.
	waiting list.List
	failed  []failure
	// followed are the databases of Follow.
	followed map[string]bool
}

// ask is one question. Its fields are guarded by Client.mu.
type ask struct {
	req      Request
	deliver  func(Verdict, error) // nil once delivered
	deadline time.Time
	retried  bool
	version  Version // in which it was asked last
	waiting  *list.Element
}

type failure struct {
	deliver func(Verdict, error)
	err     error
}

// NewClient starts to look for classifiers in opts.Dir. Close it.
func NewClient(opts Options) *Client {
	if opts.MaxOutstanding == 0 {
		opts.MaxOutstanding = DefaultMaxOutstanding
	}
	c := &Client{opts: opts, shunned: shunned, wake: make(chan struct{}, 1), dial: func(ctx context.Context, path string) (net.Conn, error) {
		return rundir.Dial(ctx, path)
	}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.state.timeout, c.state.maxText = opts.Timeout, opts.MaxText
	c.state.links = make(map[string]*link)
	c.state.followed = make(map[string]bool)
	c.keeper.Go(c.keep)
	c.links.Go(c.watch)
	return c
}

// Ask puts a question and returns at once, without waiting for any I/O. deliver
// is called exactly once, from a goroutine of the client, and must not block; its
// error is one of this package's, and then the verdict is Unclassified. Only
// after Close is it called, with ErrClosed, before Ask returns.
func (c *Client) Ask(req Request, deliver func(Verdict, error)) {
	c.mu.Lock()
	if c.state.closed {
		c.mu.Unlock()
		deliver(Unclassified(), ErrClosed)
		return
	}
	defer c.mu.Unlock()
	a := &ask{req: req, deliver: deliver, deadline: time.Now().Add(c.state.timeout)}
	c.waitLocked(a)
	if len(req.Text) > c.state.maxText {
		c.failLocked(a, ErrTooLong)
		return
	}
	c.sendLocked(a)
}

// waitLocked puts the question in its place among those waiting: at the end,
// unless the timeout has been shortened.
func (c *Client) waitLocked(a *ask) {
	before := c.state.waiting.Back()
	for before != nil && before.Value.(*ask).deadline.After(a.deadline) {
		before = before.Prev()
	}
	if before != nil {
		a.waiting = c.state.waiting.InsertAfter(a, before)
		return
	}
	a.waiting = c.state.waiting.PushFront(a)
	c.wakeKeeper()
}

// Connected is the number of classifiers that can be asked now.
func (c *Client) Connected() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, l := range c.state.links {
		if l.up {
			n++
		}
	}
	return n
}

// SetTimeout changes Options.Timeout for questions to come.
func (c *Client) SetTimeout(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.timeout = d
}

// SetMaxText changes Options.MaxText for questions to come.
func (c *Client) SetMaxText(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.maxText = n
}

// Close answers what is waiting with ErrClosed, ends the client's goroutines and
// waits for them. It must not be called from a deliver function.
func (c *Client) Close() {
	c.mu.Lock()
	c.state.closed = true
	c.mu.Unlock()
	c.cancel()
	c.keeper.Wait()
}

// shunned is how long a classifier that has answered without a verdict is asked only when no
// other can be: it answers at once, has the fewest waiting, and would be asked everything.
const shunned = time.Second

// sendLocked puts the question to the classifier with the fewest waiting, of those whose last
// answer was a verdict if there is one.
func (c *Client) sendLocked(a *ask) {
	var best *link
	up, now := false, time.Now()
	vain := func(l *link) bool { return now.Sub(l.vain) < c.shunned }
	for _, l := range c.state.links {
		if !l.up {
			continue
		}
		up = true
		if len(l.asks) >= c.opts.MaxOutstanding || len(l.out) >= maxQueued {
			continue
		}
		if best == nil || vain(best) && !vain(l) || vain(best) == vain(l) && len(l.asks) < len(best.asks) {
			best = l
		}
	}
	switch {
	case best != nil:
		c.state.lastID++
		if err := best.pushLocked(c.state.lastID, a); err != nil {
			c.failLocked(a, err)
		}
	case up:
		c.failLocked(a, ErrBusy)
	default:
		c.failLocked(a, ErrNone)
	}
}

// takeLocked gives the right to deliver, once.
func (c *Client) takeLocked(a *ask) func(Verdict, error) {
	d := a.deliver
	if d != nil {
		a.deliver = nil
		c.state.waiting.Remove(a.waiting)
		a.req.Text = "" // a late answer needs only the key
	}
	return d
}

// failLocked leaves the failure to the keeper: whoever finds it may be the caller
// of Ask, who is not to be called back.
func (c *Client) failLocked(a *ask, err error) {
	if d := c.takeLocked(a); d != nil {
		c.state.failed = append(c.state.failed, failure{d, err})
		c.wakeKeeper()
	}
}

func (c *Client) wakeKeeper() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// keep delivers failures and timeouts until the client is closed.
func (c *Client) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		failed, next := c.due(time.Now())
		for _, f := range failed {
			f.deliver(Unclassified(), f.err)
		}
		if next > 0 {
			timer.Reset(next)
		} else {
			timer.Stop()
		}
		select {
		case <-c.wake:
		case <-timer.C:
		case <-c.ctx.Done():
			c.links.Wait()
			for _, f := range c.rest() {
				f.deliver(Unclassified(), f.err)
			}
			return
		}
	}
}

// due takes what has failed or timed out by now, and says how long it is until
// the next timeout; zero without one.
func (c *Client) due(now time.Time) (failed []failure, next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.state.waiting.Front(); e != nil; e = c.state.waiting.Front() {
		a := e.Value.(*ask)
		if wait := a.deadline.Sub(now); wait > 0 {
			next = wait
			break
		}
		c.failLocked(a, ErrTimeout)
	}
	failed, c.state.failed = c.state.failed, nil
	return failed, next
}

// rest takes everything that is still waiting.
func (c *Client) rest() []failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.state.waiting.Front(); e != nil; e = c.state.waiting.Front() {
		c.failLocked(e.Value.(*ask), ErrClosed)
	}
	failed := c.state.failed
	c.state.failed = nil
	return failed
}
