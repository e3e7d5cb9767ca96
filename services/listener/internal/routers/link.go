package routers

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// answer is what became of an offered session; the text is the metric's label.
type answer string

const (
	acknowledged answer = "acknowledged"
	refused      answer = "refused"
	lost         answer = "lost"
	unanswered   answer = "unanswered"
	// postponed: nothing has been sent, since too much is on its way.
	postponed answer = "postponed"
)

// link is the connection to one router. Its maps are guarded by the fleet's state.
type link struct {
	id   string
	conn *handoff.Conn
	// sock is conn's socket, for abandon and the deadline of the greeting only.
	sock *net.UnixConn
	// heard is when the last message came, in nanoseconds since made.
	heard atomic.Int64
	made  time.Time
	// sessions are those the router has acknowledged or reported.
	sessions map[string]struct{}
	// pending are those on their way. Each channel has room for its one answer.
	pending map[string]chan answer
	// answers says that the router answers cancel requests; it is set before the fleet
	// has the link. cancels are those without an answer, by number, lastCancel the last
	// of the numbers.
	answers bool
	// stopping says that the router gives its sessions away, and is to get none.
	stopping   bool
	cancels    map[uint64]*cancellation
	lastCancel uint64
}

func newLink(id string, u *net.UnixConn) *link {
	return &link{
		id:       id,
		conn:     handoff.NewConn(u),
		sock:     u,
		made:     time.Now(),
		sessions: map[string]struct{}{},
		pending:  map[string]chan answer{},
		cancels:  map[uint64]*cancellation{},
	}
}

// load is what routers are compared by.
func (l *link) load() int { return len(l.sessions) + len(l.pending) }

// lastHeard is when the router last said something, or since when it owes an answer.
func (l *link) lastHeard(since time.Time) time.Time {
	if heard := l.made.Add(time.Duration(l.heard.Load())); heard.After(since) {
		return heard
	}
	return since
}

// greet exchanges Hello messages.
func (l *link) greet(id string) (*handoff.Hello, error) {
	if err := l.sock.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return nil, fmt.Errorf("greet router: %w", err)
	}
	if err := l.conn.Send(handoff.TypeHello, handoff.Hello{V: handoff.ProtocolVersion, Service: rundir.Listener, ID: id, Answers: true, Parks: true, Tells: true}); err != nil {
		return nil, err
	}
	h, err := l.conn.Greeted(rundir.Router)
	if err != nil {
		return nil, err
	}
	if err := l.sock.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("greet router: %w", err)
	}
	return h, nil
}

// abandon gives the connection up: the router's sends fail from now on, what it has
// sent is still read, and then the connection ends like any other.
func (l *link) abandon() { _ = l.sock.CloseRead() } // fails only when it is closed already
