package faultproxy

import (
	"net"
	"sync"
	"time"
)

// link is a client's connection and the one to the server that goes with it.
type link struct {
	p      *Proxy
	client *net.TCPConn
	done   chan struct{}

	mu     sync.Mutex
	server *net.TCPConn // guarded by mu until it is set
	over   bool         // guarded by mu

	sent int // what the server has sent since the fault was set; guarded by p.mu
}

// connected takes the connection to the server; false if the link has been reset
// meanwhile.
func (l *link) connected(server *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = server
	if l.over {
		abort(server)
	}
	return !l.over
}

// reset ends both connections with a RST.
func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	close(l.done)
	abort(l.client)
	if l.server != nil {
		abort(l.server)
	}
}

func abort(c *net.TCPConn) {
	_ = c.SetLinger(0) // fails only on a connection that is closed
	_ = c.Close()
}

// piece is what has been read, and when it may go on.
type piece struct {
	bytes []byte
	due   time.Time
}

// pieces is how many may be held back in one direction; then its source waits.
const pieces = 256

// pass carries bytes from one side to the other.
func (l *link) pass(to, from *net.TCPConn, ofServer bool) {
	queue := make(chan piece, pieces)
	var wg sync.WaitGroup
	wg.Go(func() {
		for pc := range queue {
			if !l.wait(pc.due) || !l.write(to, pc.bytes, ofServer) {
				l.reset()
				break
			}
		}
		for range queue { // whoever fills it must not wait
		}
		_ = to.CloseWrite() // fails only on a connection that is closed
	})
	for buf := make([]byte, 16<<10); ; {
		n, err := from.Read(buf)
		if n > 0 {
			queue <- piece{append([]byte(nil), buf[:n]...), l.p.due(n, ofServer)}
		}
		if err != nil {
			break
		}
	}
	close(queue)
	wg.Wait()
}

// due gives when bytes that have just been read may go on.
func (p *Proxy) due(n int, ofServer bool) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !ofServer {
		return now
	}
	if p.fault.rate > 0 {
		if p.free.Before(now) {
			p.free = now
		}
		p.free = p.free.Add(time.Duration(n) * time.Second / time.Duration(p.fault.rate))
		return p.free
	}
	return now.Add(p.fault.delay)
}

// wait waits until bytes may go on, and for as long as nothing may.
func (l *link) wait(due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.done:
		return false
	}
	for {
		l.p.mu.Lock()
		hold, changed := l.p.fault.blackhole, l.p.changed
		l.p.mu.Unlock()
		if !hold {
			return true
		}
		select {
		case <-changed:
		case <-l.done:
			return false
		}
	}
}

// write passes bytes on; false if the connection is to end with them or has ended.
func (l *link) write(to *net.TCPConn, b []byte, ofServer bool) bool {
	last := false
	if ofServer {
		l.p.mu.Lock()
		if most := l.p.fault.reset; most > 0 {
			if left := max(0, most-l.sent); len(b) > left {
				b, last = b[:left], true
			}
			l.sent += len(b)
		}
		l.p.mu.Unlock()
	}
	_, err := to.Write(b)
	if last && err == nil {
		l.linger()
	}
	return err == nil && !last
}

// linger gives what was written last the time to be read: a reset overtakes it.
func (l *link) linger() {
	select {
	case <-time.After(lingerTime):
	case <-l.done:
	}
}

// lingerTime is ample on one host.
const lingerTime = 20 * time.Millisecond
