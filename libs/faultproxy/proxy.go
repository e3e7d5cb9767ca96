package faultproxy

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Proxy stands before one server. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]struct{}
	closed bool
	fault  fault
	// changed is closed when the fault changes.
	changed chan struct{}
	// free is when the next byte may leave the server while it is throttled.
	free time.Time
}

// fault is what happens to what passes. The zero value is nothing.
type fault struct {
	cut, blackhole bool
	delay          time.Duration
	// rate is in bytes per second, of all connections together; 0: as fast as it goes.
	rate int
	// reset is after how many bytes of the server a connection is reset; 0: never.
	reset int
}

// New listens on a free port of 127.0.0.1 and passes everything on to the target,
// host:port. The caller closes it.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the fault proxy: %w", err)
	}
	p := &Proxy{listener: l, target: target, links: map[*link]struct{}{}, changed: make(chan struct{})}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where to connect, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close ends all connections and waits until nothing of the proxy runs any more.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.set(fault{cut: true})
	p.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // closed before
	}
	return err
}

// Heal ends every fault. Connections that were cut or reset stay so; bytes that
// were held back go on.
func (p *Proxy) Heal() { p.set(fault{}) }

// Cut resets all connections, and every new one at once.
func (p *Proxy) Cut() { p.set(fault{cut: true}) }

// Blackhole keeps all connections open and takes new ones, and lets nothing
// through in either direction.
func (p *Proxy) Blackhole() { p.set(fault{blackhole: true}) }

// Delay holds back for a while whatever the server says. Its throughput stays.
func (p *Proxy) Delay(d time.Duration) { p.set(fault{delay: d}) }

// Throttle lets the server send so many bytes per second, over all connections
// together.
func (p *Proxy) Throttle(bytesPerSecond int) { p.set(fault{rate: bytesPerSecond}) }

// ResetAfter resets each connection once the server has sent so many more bytes on
// it; the last of them still arrive.
func (p *Proxy) ResetAfter(bytes int) { p.set(fault{reset: bytes}) }

// Connections is how many there are.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.free = f, time.Time{}
	close(p.changed)
	p.changed = make(chan struct{})
	for l := range p.links {
		l.sent = 0
		if f.cut {
			l.reset()
		}
	}
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client has gone already
		}
		p.wg.Go(func() { p.serve(c.(*net.TCPConn)) })
	}
}

// serve passes bytes between a client and the server until either has enough.
func (p *Proxy) serve(client *net.TCPConn) {
	l := &link{p: p, client: client, done: make(chan struct{})}
	if !p.add(l) {
		l.reset()
		return
	}
	defer p.remove(l)
	server, err := net.Dial("tcp", p.target)
	if err != nil || !l.connected(server.(*net.TCPConn)) {
		l.reset()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.pass(l.server, l.client, false) })
	both.Go(func() { l.pass(l.client, l.server, true) })
	both.Wait()
	l.reset()
}

// add takes a connection up, unless it is to be cut.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault.cut || p.closed {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
