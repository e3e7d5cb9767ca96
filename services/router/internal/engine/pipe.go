package engine

import "github.com/pgpilot/pgpilot/services/router/internal/poll"

// pipe is one registered socket with what could not be written yet and what was
// read but not used yet.
type pipe struct {
	e        *Engine
	fd       int
	tok      poll.Token
	interest poll.Interest
	// out waits for room, unread for its owner. Both are nil when empty: an idle
	// connection holds no buffer.
	out    []byte
	unread []byte
	// broken says that the peer is gone; its owner has not been told yet.
	broken bool
	closed bool
}

// open registers the descriptor, of which the pipe is the owner from now on if
// there is no error.
func (p *pipe) open(e *Engine, fd int, h handler, what poll.Interest) error {
	p.e, p.fd = e, fd
	p.tok = e.slots.add(h)
	p.interest = what
	if err := e.poller.Add(fd, p.tok, p.interest); err != nil {
		e.slots.remove(p.tok)
		return err
	}
	return nil
}

// recv reads what is there into the loop's buffer, once.
func (p *pipe) recv() (int, poll.Status) {
	p.e.calls.reads++
	return poll.Recv(p.fd, p.e.buf[:])
}

// put writes what fits of b, once.
func (p *pipe) put(b []byte) (int, poll.Status) {
	p.e.calls.writes++
	return poll.Send(p.fd, b)
}

// send writes b, keeping what does not fit.
func (p *pipe) send(b []byte) {
	if p.broken || p.closed {
		return
	}
	if len(p.out) > 0 {
		p.out = append(p.out, b...)
		return
	}
	for len(b) > 0 {
		n, st := p.put(b)
		switch st {
		case poll.OK:
			b = b[n:]
			continue
		case poll.Again:
			p.out = p.e.keep(b)
			p.watch(p.interest | poll.Out)
		case poll.Closed:
			p.broken = true
		}
		return
	}
}

// flush writes what is waiting and reports whether all of it has left.
func (p *pipe) flush() bool {
	rest := p.out
	for len(rest) > 0 {
		n, st := p.put(rest)
		if st == poll.Again {
			break
		}
		if st == poll.Closed {
			p.broken = true
			return false
		}
		rest = rest[n:]
	}
	if len(rest) > 0 {
		p.out = append(p.out[:0], rest...)
		return false
	}
	if p.out != nil {
		p.e.drop(p.out)
		p.out = nil
	}
	p.watch(p.interest &^ poll.Out)
	return true
}

// watch changes what the descriptor is watched for.
func (p *pipe) watch(what poll.Interest) {
	if what == p.interest || p.closed {
		return
	}
	p.interest = what
	if err := p.e.poller.Mod(p.fd, p.tok, what); err != nil {
		p.broken = true
	}
}

// reading turns the watch for readability on or off.
func (p *pipe) reading(on bool) {
	if on {
		p.watch(p.interest | poll.In)
		return
	}
	p.watch(p.interest &^ poll.In)
}

// leave keeps what was not used of b: the tail of either the loop's buffer or of
// unread itself.
func (p *pipe) leave(b []byte) {
	switch {
	case len(b) == 0:
		if p.unread != nil {
			p.e.drop(p.unread)
			p.unread = nil
		}
	case p.unread == nil:
		p.unread = p.e.keep(b)
	default:
		p.unread = append(p.unread[:0], b...)
	}
}

// received gives everything unread, b included. The result is either b itself or
// p.unread.
func (p *pipe) received(b []byte) []byte {
	if len(p.unread) == 0 {
		return b
	}
	p.unread = append(p.unread, b...)
	return p.unread
}

// letGo forgets the descriptor without closing it: it is not watched any more, and
// what could not be written or was not used is gone.
func (p *pipe) letGo() {
	if p.closed {
		return
	}
	p.closed = true
	_ = p.e.poller.Del(p.fd)
	p.e.slots.remove(p.tok)
	p.dropBuffers()
}

func (p *pipe) dropBuffers() {
	for _, b := range [][]byte{p.out, p.unread} {
		if b != nil {
			p.e.drop(b)
		}
	}
	p.out, p.unread = nil, nil
}

// hangup ends the connection, also for other processes that hold a copy.
func (p *pipe) hangup() {
	if p.closed {
		return
	}
	p.letGo()
	poll.Hangup(p.fd)
}
