package busserver

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// bridge joins each connection on the doors to an in-process connection of the
// server, which by itself listens on TCP only, and shares no port.
type bridge struct {
	// dial connects to the server.
	dial func() (net.Conn, error)
	log  *slog.Logger
	wg   sync.WaitGroup

	mu    sync.Mutex
	doors []net.Listener
	conns map[net.Conn]struct{} // both ends of every pair
	done  bool
}

func newBridge(dial func() (net.Conn, error), log *slog.Logger) *bridge {
	return &bridge{dial: dial, log: log, conns: make(map[net.Conn]struct{})}
}

// open takes connections from one more door, which is the bridge's from now on.
func (b *bridge) open(l net.Listener) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		l.Close()
		return
	}
	b.doors = append(b.doors, l)
	b.wg.Go(func() { b.accept(l) })
}

// acceptPause keeps a shortage of descriptors from turning into a busy loop.
const acceptPause = 50 * time.Millisecond

func (b *bridge) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			b.log.Error("the bus cannot accept a connection", obs.KeyError, err)
			time.Sleep(acceptPause)
			continue
		}
		if u, ok := c.(*net.UnixConn); ok {
			if err := rundir.CheckPeer(u); err != nil {
				b.log.Warn("bus connection refused", obs.KeyError, err)
				c.Close()
				continue
			}
		}
		b.join(c)
	}
}

// join copies both ways until either end closes.
func (b *bridge) join(c net.Conn) {
	s, err := b.dial()
	if err != nil {
		b.log.Warn("bus connection refused", obs.KeyError, err)
		c.Close()
		return
	}
	if !b.keep(c, s) {
		return
	}
	b.wg.Add(2)
	// A direction that ends closes only where it wrote to: what the other one has
	// in hand, such as the server's reason for closing, still arrives, and then it
	// ends by that close.
	flow := func(dst net.Conn, w io.Writer, src net.Conn) {
		defer b.wg.Done()
		_, _ = io.Copy(w, src) // how it ended is the server's and the client's to report
		b.drop(dst)
	}
	go flow(s, s, c)
	go flow(c, guarded{c}, s)
}

// guarded gives up on a client that does not read. The server has its own limit for
// that, but cannot reach the client's end of the pair.
type guarded struct{ net.Conn }

const writeTimeout = 10 * time.Second

// Write implements io.Writer.
func (g guarded) Write(p []byte) (int, error) {
	if err := g.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return g.Conn.Write(p)
}

func (b *bridge) keep(pair ...net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range pair {
		if b.done {
			c.Close()
			continue
		}
		b.conns[c] = struct{}{}
	}
	return !b.done
}

func (b *bridge) drop(c net.Conn) {
	c.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
}

func (b *bridge) stopAccepting() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = true
	for _, l := range b.doors {
		l.Close()
	}
}

// close ends every pair and waits for the copying goroutines.
func (b *bridge) close() {
	b.stopAccepting()
	b.mu.Lock()
	for c := range b.conns {
		c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}
