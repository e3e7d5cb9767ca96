package engine

import (
	"time"

	"github.com/pgpilot/pgpilot/services/router/internal/poll"
)

// parting is a connection that has been given up and that its server has not closed yet.
// A server process closes its connection by ending, and until then it takes one of the
// places that max_connections and CONNECTION LIMIT count: another login that comes before
// that is one too many. So it counts against backends.max_connections for so long.
type parting struct {
	e       *Engine
	fd      int
	tok     poll.Token
	backend int
	from    *serverSite
	due     poll.Timer
}

// partingTimeout is how long a server may take for that. One that takes longer has
// trouble of its own, or cannot be reached: whether it has a place is for itself to say. Over
// TLS it is the relay that waits, for its lingerTimeout (package tlsrelay).
const partingTimeout = 2 * time.Second

// part closes the connection, on which nothing runs, and holds its place until the server
// has closed it, too.
func (s *server) part() {
	if s.closed {
		return
	}
	e, fd := s.e, s.fd
	s.letGo()
	p := &parting{e: e, fd: fd, backend: s.site.key.Backend, from: e.servers[s.site.key.Backend]}
	p.tok = e.slots.add(p)
	if err := e.poller.Add(fd, p.tok, poll.In); err != nil {
		e.slots.remove(p.tok)
		poll.Hangup(fd)
		return
	}
	poll.Finish(fd)
	e.parting[p] = struct{}{}
	p.from.parting++
	e.timers.Set(&p.due, e.now.Add(partingTimeout), p.end)
}

// event handles readiness of the socket: whatever the server still says is not heard.
func (p *parting) event(poll.Event) {
	if _, st := poll.Recv(p.fd, p.e.buf[:]); st == poll.Closed {
		p.end()
	}
}

// end gives the place to whoever waits for one.
func (p *parting) end() {
	p.from.parting--
	p.e.timers.Stop(&p.due)
	delete(p.e.parting, p)
	p.hangup()
	p.e.vacant(p.backend)
}

func (p *parting) hangup() {
	_ = p.e.poller.Del(p.fd)
	p.e.slots.remove(p.tok)
	poll.Hangup(p.fd)
}
