package upstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/tlsrelay"
)

// relays are the TLS connections to one server. A relay ends when the loop closes its
// descriptor or the server its connection; close ends those that are left.
type relays struct {
	wg sync.WaitGroup

	mu     sync.Mutex
	closed bool                         // guarded by mu
	open   map[*tlsrelay.Relay]struct{} // guarded by mu
}

var errClosed = errors.New("the router is stopping")

// start gives the loop's end of a TLS connection, whose bytes are read from in, and
// carries what goes through it.
// After an error the connection is still the caller's.
func (r *relays) start(t *tls.Conn, in io.Reader) (int, error) {
	below, ok := t.NetConn().(*tlsrelay.Carrier)
	if !ok {
		return -1, fmt.Errorf("TLS lies on a %T", t.NetConn())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return -1, errClosed
	}
	relay, fd, err := tlsrelay.New(t, below)
	if err != nil {
		return -1, err
	}
	relay.ReadThrough(in)
	if r.open == nil {
		r.open = map[*tlsrelay.Relay]struct{}{}
	}
	r.open[relay] = struct{}{}
	r.wg.Go(func() {
		// How it ended is the loop's to notice: it is an end of file or a hang-up there.
		_ = relay.Run()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, relay)
	})
	return fd, nil
}

// farewellTimeout is how long relays may take to end by themselves.
const farewellTimeout = 2 * time.Second

func (r *relays) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	cut := time.AfterFunc(farewellTimeout, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for relay := range r.open {
			relay.Cut()
		}
	})
	defer cut.Stop()
	r.wg.Wait()
}
