package busserver

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pgpilot/pgpilot/libs/obs"
)

const (
	// retryAddress is the time between two attempts to take bus.cluster.listen.
	retryAddress = time.Second
	// moveTimeout is how long a server that takes the address may need to be joined with
	// those that the one before is joined with.
	moveTimeout = 10 * time.Second
)

// takeAddress moves to bus.cluster.listen once the neighbour that has it has ended, so that the
// other hosts go on finding somebody there. It ends then, or with ctx.
func (s *Server) takeAddress(ctx context.Context) {
	address := s.o.Bus.Cluster.Listen
	s.o.Log.Info("another lagpoller of this run directory has bus.cluster.listen; it is taken over when that one has ended", obs.KeyAddress, address)
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryAddress):
		}
		err := s.tryAddress(ctx, address)
		if err == nil {
			s.o.Log.Info("this lagpoller has bus.cluster.listen now", obs.KeyAddress, address)
			return
		}
		if ctx.Err() != nil || errors.Is(err, errNeighbours) || err.Error() == told {
			continue
		}
		told = err.Error()
		s.o.Log.Warn("lagpollers of other hosts that start now do not find this one; bus.cluster.listen is tried again each second", obs.KeyError, err)
	}
}

// errNeighbours says that a neighbour has the address.
var errNeighbours = errors.New("a neighbour has it")

func (s *Server) tryAddress(ctx context.Context, address string) error {
	at, err := placeAt(address)
	if errors.Is(err, syscall.EADDRINUSE) {
		if notes, failed := s.o.near(); failed == nil && sharedBy(notes, address) {
			return errNeighbours
		}
	}
	if err != nil {
		return err
	}
	return s.move(ctx, at)
}

// move goes on with another server, at another place: a server opens its port for routes when
// it starts, and never another one. The new one is joined with everybody first. Then the
// clients are cut off, and find it behind the same doors.
func (s *Server) move(ctx context.Context, to place) error {
	s.mu.Lock()
	old, from := s.nats, s.at
	s.mu.Unlock()
	if err := s.o.leaveNote(to); err != nil {
		return err
	}
	next, err := launch(ctx, s.o, s.key, to)
	if err == nil {
		if err = awaitRoutes(ctx, next, old); err != nil {
			end(next)
		}
	}
	if err != nil {
		return errors.Join(err, s.o.leaveNote(from))
	}
	s.mu.Lock()
	s.nats, s.at = next, to
	s.slow += old.NumSlowConsumers()
	s.mu.Unlock()
	end(old)
	return nil
}

// awaitRoutes waits until one server is joined with all that another one is joined with, but
// for a while only: one of those may be about to end. It fails when ctx ends.
func awaitRoutes(ctx context.Context, next, old *server.Server) error {
	for deadline := time.Now().Add(moveTimeout); time.Now().Before(deadline); {
		has := append(joinedWith(next), next.Name())
		if !slices.ContainsFunc(joinedWith(old), func(name string) bool { return !slices.Contains(has, name) }) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(moveTimeout / 1000):
		}
	}
	return ctx.Err()
}

// joinedWith gives the names of the servers that a server is joined with.
func joinedWith(s *server.Server) (names []string) {
	routes, err := s.Routez(nil)
	if err != nil {
		return nil // without options there is none to be wrong
	}
	for _, r := range routes.Routes {
		names = append(names, r.RemoteName)
	}
	return names
}

// end stops a server and waits until it has ended.
func end(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}
