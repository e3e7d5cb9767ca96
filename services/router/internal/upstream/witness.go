package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

// witness says which run of the server it is, over a connection of pgpilot's own that is
// made when it is missing or has died. One reading is under way at a time, and serves all
// who asked before it began: many connections are often made at once.
type witness struct {
	dial    func(ctx context.Context) (*dial.Conn, error)
	timeout time.Duration
	// ctx ends at close, and work is what serves until then.
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	next    *reading // guarded by mu; asked for and not begun, nil when there is none
	serving bool     // guarded by mu
	closed  bool     // guarded by mu

	// conn is the serving goroutine's, nil when there is none.
	conn *dial.Conn
}

// reading is one look at the run; run and err are valid once done is closed.
type reading struct {
	done chan struct{}
	run  lsn.Incarnation
	err  error
}

func newWitness(timeout time.Duration, dial func(context.Context) (*dial.Conn, error)) *witness {
	w := &witness{dial: dial, timeout: timeout}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// read gives the run as of a moment after the call. A caller that gives up costs those
// who wait with it nothing.
func (w *witness) read(ctx context.Context) (lsn.Incarnation, error) {
	r := w.ask()
	select {
	case <-r.done:
		return r.run, r.err
	case <-ctx.Done():
		return lsn.Incarnation{}, ctx.Err()
	}
}

func (w *witness) ask() *reading {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		r := &reading{done: make(chan struct{}), err: errGone}
		close(r.done)
		return r
	}
	if w.next == nil {
		w.next = &reading{done: make(chan struct{})}
	}
	if !w.serving {
		w.serving = true
		w.work.Go(w.serve)
	}
	return w.next
}

// serve reads as often as it is asked to.
func (w *witness) serve() {
	for {
		w.mu.Lock()
		r := w.next
		w.next, w.serving = nil, r != nil
		w.mu.Unlock()
		if r == nil {
			return
		}
		r.run, r.err = w.look()
		close(r.done)
	}
}

// look reads the run. A connection that has died meanwhile is made again once.
func (w *witness) look() (lsn.Incarnation, error) {
	ctx, cancel := context.WithTimeout(w.ctx, w.timeout)
	defer cancel()
	for attempt := 0; ; attempt++ {
		fresh := w.conn == nil
		if fresh {
			conn, err := w.dial(ctx)
			if err != nil {
				return lsn.Incarnation{}, fmt.Errorf("read the server's run: %w", err)
			}
			w.conn = conn
		}
		run, err := w.question(ctx, fresh)
		if err == nil {
			return run, nil
		}
		w.hangUp()
		if fresh || attempt > 0 {
			return lsn.Incarnation{}, fmt.Errorf("read the server's run: %w", err)
		}
	}
}

// question asks once. An earlier connection may hang, so it has only a part of the time.
func (w *witness) question(ctx context.Context, fresh bool) (lsn.Incarnation, error) {
	if !fresh {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.timeout/3)
		defer cancel()
	}
	return readRun(ctx, w.conn)
}

func (w *witness) hangUp() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.conn.Close(ctx) // it is given up either way
	w.conn = nil
}

// errGone: the server is not in the configuration any more, or the router ends.
var errGone = errors.New("read the server's run: connections to this server are not made any more")

// close ends the connection. Who asks from then on gets an error.
func (w *witness) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.stop()
	w.work.Wait()
	w.hangUp()
}
