package busserver

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

// bridge joins each connection on bus.sock to an in-process connection of the
// server, which itself listens on TCP only.
type bridge struct {
	listener *net.UnixListener
	server   *server.Server
	log      *slog.Logger
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // both ends of every pair
	done  bool
}

func startBridge(l *net.UnixListener, s *server.Server, log *slog.Logger) *bridge {
	b := &bridge{listener: l, server: s, log: log, conns: make(map[net.Conn]struct{})}
	b.wg.Add(1)
	go b.accept()
	return b
}

// acceptPause keeps a shortage of descriptors from turning into a busy loop.
const acceptPause = 50 * time.Millisecond

func (b *bridge) accept() {
	defer b.wg.Done()
	for {
		c, err := b.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			b.log.Error("bus socket cannot accept a connection", "error", err)
			time.Sleep(acceptPause)
			continue
		}
		if err := rundir.CheckPeer(c); err != nil {
			b.log.Warn("bus connection refused", "error", err)
			c.Close()
			continue
		}
		b.join(c)
	}
}

// join copies both ways until either end closes.
func (b *bridge) join(c *net.UnixConn) {
	s, err := b.server.InProcessConn()
	if err != nil {
		b.log.Warn("bus connection refused", "error", err)
		c.Close()
		return
	}
	if !b.keep(c, s) {
		return
	}
	b.wg.Add(2)
	flow := func(dst, src net.Conn) {
		defer b.wg.Done()
		_, _ = io.Copy(dst, src) // how it ended is the server's and the client's to report
		b.drop(c, s)
	}
	go flow(s, c)
	go flow(c, s)
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

func (b *bridge) drop(pair ...net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range pair {
		c.Close()
		delete(b.conns, c)
	}
}

func (b *bridge) stopAccepting() { b.listener.Close() }

// close ends every pair and waits for the copying goroutines.
func (b *bridge) close() {
	b.stopAccepting()
	b.mu.Lock()
	b.done = true
	for c := range b.conns {
		c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}
