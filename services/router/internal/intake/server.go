package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Handler is the router behind the socket. Its methods are called from the
// connections' goroutines.
type Handler interface {
	// Adopt takes a session with its client's descriptor and those of its leases, which are
	// the handler's from then on, and acknowledges it to the link or refuses it, at once or
	// later: others that follow need not wait. Unless it does so by TryAck, it is told what has
	// come of the acknowledgement.
	Adopt(rec *handoff.Record, fds []int, from *Link)
	// Own says that the acknowledgement has left: the session is the router's alone.
	// Nothing may be read from or sent to its client before.
	Own(session string, from *Link)
	// Disown says that the acknowledgement could not leave: the listener still owns
	// the session and gives it to another router. The descriptor is to be closed
	// without a shutdown.
	Disown(session string, from *Link)
	// Cancel cancels what the session with this key runs, if it is here, and calls over
	// once nothing is left to be done about it: what the session runs from then on is
	// safe. It may be called from any goroutine, and is told whether the session is here.
	Cancel(key handoff.CancelKey, over func(found bool))
	// Leave ends those of these sessions that are here, each at its next safe point.
	Leave(sessions []string)
	// Shed gives that many of the sessions away that have nothing to do.
	Shed(sessions int)
	// Sessions lists the sessions that are here.
	Sessions() []string
	// Arrived says that sessions which have left by way of a listener that tells are not on
	// their way any more.
	Arrived(sessions []string)
	// WayOut says that there is a listener that takes sessions (Server.Way).
	WayOut()
}

// Server accepts listeners.
type Server struct {
	id      string
	handler Handler
	log     *slog.Logger
	wg      sync.WaitGroup

	mu    sync.Mutex
	links map[*Link]struct{} // guarded by mu
	// stopping says that no more sessions are taken, which who connects now is to know.
	stopping bool // guarded by mu

	// met is closed when a listener has been greeted.
	met     chan struct{}
	meeting sync.Once
}

// NewServer makes a server for the router instance id.
func NewServer(id string, h Handler, log *slog.Logger) *Server {
	return &Server{id: id, handler: h, log: log, links: map[*Link]struct{}{}, met: make(chan struct{})}
}

// Met is closed when a listener has connected for the first time.
func (s *Server) Met() <-chan struct{} { return s.met }

// Listener is where listeners connect: a socket of the run directory, or any other.
type Listener interface {
	AcceptUnix() (*net.UnixConn, error)
	Close() error
}

// Serve accepts until ctx ends, then stops accepting. Connections stay: listeners
// must still hear of sessions that end. Close ends them.
func (s *Server) Serve(ctx context.Context, l Listener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer l.Close()
	for {
		u, err := l.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept listener: %w", err)
		}
		if err := rundir.CheckPeer(u); err != nil {
			s.log.Warn("refused a peer on the router's socket", obs.KeyError, err)
			u.Close()
			continue
		}
		k := newLink(handoff.NewConn(u), s.handler, s.log)
		s.mu.Lock()
		s.links[k] = struct{}{}
		if s.stopping {
			k.stops()
		}
		s.mu.Unlock()
		s.wg.Go(func() { s.attend(k) })
	}
}

// Ended tells every listener that a session is no more.
func (s *Server) Ended(session string) { s.tell(handoff.TypeEnded, session, nil) }

// Began tells every listener but the one that has brought it that a session is here.
func (s *Server) Began(session string, from *Link) { s.tell(handoff.TypeBegan, session, from) }

// Moved tells every listener but the one that has taken it, if that is known, that a
// session has left.
func (s *Server) Moved(session string, to *Link) { s.tell(handoff.TypeMoved, session, to) }

func (s *Server) tell(what handoff.Type, session string, but *Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.links {
		if k != but {
			k.tell(what, session)
		}
	}
}

// Stopping tells every listener that no more sessions are taken, also those that connect later: they
// may take what is left.
func (s *Server) Stopping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for k := range s.links {
		k.stops()
	}
}

// Close ends all connections and waits for their goroutines.
func (s *Server) Close() {
	s.mu.Lock()
	for k := range s.links {
		k.close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// attend serves one listener until it goes away.
func (s *Server) attend(k *Link) {
	var writer sync.WaitGroup
	writer.Go(k.write)
	err := s.converse(k)
	k.endOffers(err)
	k.endForwards()
	s.mu.Lock()
	delete(s.links, k)
	s.mu.Unlock()
	k.close()
	writer.Wait()
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		s.log.Warn("connection to a listener ended", obs.KeyError, err)
	}
}

func (s *Server) converse(k *Link) error {
	hello, err := k.conn.Greeted(rundir.Listener)
	if err != nil {
		return err
	}
	k.greet(handoff.Hello{V: handoff.ProtocolVersion, Service: rundir.Router, ID: s.id, Sessions: s.handler.Sessions(), Answers: true})
	k.mu.Lock()
	k.offers.parks, k.offers.tells, k.forwards.answers = hello.Parks, hello.Tells, hello.Answers
	k.mu.Unlock()
	s.meeting.Do(func() { close(s.met) })
	if hello.Parks {
		s.handler.WayOut()
	}
	for {
		m, err := k.conn.Receive()
		if err != nil {
			return err
		}
		k.hears()
		switch m.Type {
		case handoff.TypeSession:
			s.session(k, m)
			continue
		case handoff.TypeShed:
			var shed handoff.Shed
			if err := m.Unmarshal(&shed); err != nil {
				s.log.Warn("unreadable request to give sessions away", obs.KeyError, err)
			} else {
				s.handler.Shed(shed.Sessions)
			}
		case handoff.TypeAck, handoff.TypeRefuse:
			handoff.CloseFDs(m.FDs)
			var ref handoff.SessionRef
			if err := m.Unmarshal(&ref); err != nil {
				return err
			}
			outcome := Taken
			if m.Type == handoff.TypeRefuse {
				outcome = Kept
				s.log.Info("listener refused a session", obs.KeySession, ref.Session, obs.KeyReason, ref.Reason)
			}
			k.settle(ref, outcome)
			continue
		case handoff.TypeArrived:
			var a handoff.Arrived
			if err := m.Unmarshal(&a); err != nil {
				s.log.Warn("unreadable news of sessions that have arrived", obs.KeyError, err)
			} else {
				s.handler.Arrived(a.Sessions)
			}
		case handoff.TypeCanceled:
			var a handoff.Canceled
			if err := m.Unmarshal(&a); err != nil {
				s.log.Warn("unreadable answer to a cancel request", obs.KeyError, err)
			} else {
				k.canceledThere(a.Request)
			}
		case handoff.TypeCancel:
			var c handoff.Cancel
			if err := m.Unmarshal(&c); err != nil {
				s.log.Warn("unreadable cancel request", obs.KeyError, err)
			} else {
				s.handler.Cancel(c.CancelKey, func(found bool) { k.canceled(c.Request, found) })
			}
		case handoff.TypeLeave:
			var leave handoff.Leave
			if err := m.Unmarshal(&leave); err != nil {
				s.log.Warn("unreadable request to end sessions", obs.KeyError, err)
			} else {
				s.handler.Leave(leave.Sessions)
			}
		}
		handoff.CloseFDs(m.FDs) // nothing else carries any
	}
}

// session has one session adopted, or leaves it with its sender.
func (s *Server) session(k *Link, m *handoff.Message) {
	rec, err := handoff.DecodeRecord(m.Body)
	switch {
	case err != nil:
	case m.Lost:
		err = handoff.ErrLost
	case len(m.FDs) == 0:
		err = errors.New("it came without descriptors")
	}
	if err == nil {
		s.handler.Adopt(rec, m.FDs, k)
		return
	}
	handoff.CloseFDs(m.FDs)
	if rec == nil {
		s.log.Warn("refused a session", obs.KeyError, err, obs.KeyCount, len(m.FDs))
		k.conn.Abandon() // which session it was is unknown: the listener gives all that are pending to others
		return
	}
	k.Refuse(rec.Session, err)
}
