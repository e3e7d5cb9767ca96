package busserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Limits of the server. Messages are small JSON documents; a topology of a
// thousand backends fits. maxPending is what one slow listener may hold up before
// it is cut off, so that a stopped terminal costs no memory to speak of.
const (
	maxPayload = 512 << 10
	maxPending = 4 << 20
	maxControl = 4 << 10
)

const (
	// startTimeout bounds the start; the server itself reports failures only to its log.
	startTimeout = 10 * time.Second
	// starts is how often it is tried, with other ports that were free a moment before.
	starts = 3
	// routePing finds a neighbour that hangs without closing its connections: after
	// three of them it is left, and tried again each second.
	routePing = time.Second
	// quietAttempts is how many attempts to reach a neighbour pass between two lines of
	// the log: a day's.
	quietAttempts = 86400
	// routeTimeout bounds TLS and signing in between servers.
	routeTimeout = 5 * time.Second
)

// clusterName is that of every cluster: who belongs to it is for the secret to say.
const clusterName = "pgpilot"

// Options of Start.
type Options struct {
	// Bus is the configuration: where operators and services elsewhere come to, the
	// services' secret, and the lagpollers of other hosts.
	Bus config.Bus
	// Claim is the lagpoller's hold on the run directory Dir.
	Claim *rundir.Claim
	Dir   *rundir.Dir
	Log   *slog.Logger
}

// Server is a running bus, joined with those of the other lagpollers.
type Server struct {
	bridge *bridge
	addr   net.Addr
	o      Options
	key    bus.Key
	stop   context.CancelFunc
	wg     sync.WaitGroup

	// own is the socket under this lagpoller's name.
	own *rundir.Socket

	mu sync.Mutex
	// nats is the server, at the place where it takes routes; guarded by mu.
	nats *server.Server
	at   place
	// slow counts the slow consumers of those before it; guarded by mu.
	slow int64
	// common is the socket under the name that all lagpollers share, once that has led here;
	// guarded by mu.
	common *rundir.Socket
}

// Start opens all doors. When it returns, the bus can be used.
func Start(ctx context.Context, o Options) (*Server, error) {
	key, err := bus.Credential(o.Dir, o.Bus.SecretFile)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, key: key}
	var door net.Listener
	for try := 1; ; try++ {
		if s.nats, s.at, err = run(ctx, o, key, &door); err == nil {
			break
		}
		if !errors.Is(err, errNotReady) || try == starts || ctx.Err() != nil {
			if door != nil {
				door.Close()
			}
			return nil, err
		}
	}
	s.bridge = newBridge(s.InProcessConn, o.Log)
	if door != nil {
		s.addr = door.Addr()
		s.bridge.open(door)
	}
	if s.own, err = o.Claim.Listen(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the bus socket: %w", err), s.Close())
	}
	s.bridge.open(s.own)
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.wg.Go(func() { s.keepCommon(watching) })
	if s.at.instead {
		s.wg.Go(func() { s.takeAddress(watching) })
	}
	return s, nil
}

// run starts the server itself, where there is a place for it. The door is opened unless it
// has been before, once the neighbours know who opens it.
func run(ctx context.Context, o Options, key bus.Key, door *net.Listener) (*server.Server, place, error) {
	at, err := choosePlace(ctx, o.Bus.Cluster.Listen, o.near)
	if err != nil {
		return nil, at, err
	}
	if err := o.leaveNote(at); err != nil {
		return nil, at, err
	}
	if *door == nil && o.Bus.Listen != "" {
		if *door, err = openDoor(ctx, o.Bus.Listen, o.near); err != nil {
			return nil, at, err
		}
	}
	ns, err := launch(ctx, o, key, at)
	return ns, at, err
}

// near gives the notes of the neighbours.
func (o *Options) near() ([]note, error) { return neighbours(o.Dir, o.Claim.ID()) }

// leaveNote tells the neighbours where this lagpoller's server takes routes.
func (o *Options) leaveNote(at place) error {
	return note{Route: at.near, Listen: o.Bus.Listen, Cluster: o.Bus.Cluster.Listen}.leave(o.Claim)
}

// launch starts a server at a place and has it look for the others. Its neighbours have been
// told where it takes routes before it looks for theirs: of two that start at once, one sees
// the other.
func launch(ctx context.Context, o Options, key bus.Key, at place) (*server.Server, error) {
	notes, err := o.near()
	if err != nil {
		return nil, err
	}
	opts, err := natsOptions(o, key)
	if err != nil {
		return nil, err
	}
	opts.Cluster.Host, opts.Cluster.Port = at.host, at.port
	opts.Routes = routes(notes, o.Bus.Cluster.Routes)
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("set up the bus: %w", err)
	}
	log := &natsLogger{log: o.Log, fatal: make(chan string, 1), now: time.Now}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start()
	if err := started(ctx, ns, log); err != nil {
		end(ns)
		return nil, err
	}
	return ns, nil
}

func natsOptions(o Options, key bus.Key) (*server.Options, error) {
	tls, err := routeTLS(key)
	if err != nil {
		return nil, err
	}
	opts := &server.Options{
		// Two servers of a cluster with one name refuse each other, and ids are of a run
		// directory.
		ServerName:      "pgpilot-lagpoller-" + o.Claim.ID() + "-" + rand.Text()[:8],
		NoSigs:          true, // signals belong to the service
		NoSystemAccount: true, // its statistics have no reader here
		MaxPayload:      maxPayload,
		MaxPending:      maxPending,
		MaxControlLine:  maxControl,
		// Of a neighbour that has ended one line is enough.
		ConnectErrorReports:   quietAttempts,
		ReconnectErrorReports: quietAttempts,
		// A server that listens nowhere never gets to its routes. Nobody is told of this
		// port; the bridge has the doors.
		Host: "127.0.0.1",
		Port: server.RANDOM_PORT,
		Cluster: server.ClusterOpts{
			Name:         clusterName,
			TLSConfig:    tls,
			TLSTimeout:   routeTimeout.Seconds(),
			AuthTimeout:  routeTimeout.Seconds(),
			NoAdvertise:  true, // of that port
			PoolSize:     -1,   // one connection carries it all
			PingInterval: routePing,
			MaxPingsOut:  2,
		},
	}
	if err := admit(opts, key.Public, o.Bus.Listen != ""); err != nil {
		return nil, fmt.Errorf("set up the bus accounts: %w", err)
	}
	return opts, nil
}

// errNotReady says that the server did not come up, as when somebody has taken its port
// since it was looked at.
var errNotReady = errors.New("start the bus")

func started(ctx context.Context, ns *server.Server, log *natsLogger) error {
	ready := make(chan bool, 1)
	go func() { ready <- ns.ReadyForConnections(startTimeout) }()
	select {
	case ok := <-ready:
		if !ok {
			return fmt.Errorf("%w: not ready within %v", errNotReady, startTimeout)
		}
		return nil
	case msg := <-log.fatal:
		return fmt.Errorf("%w: %s", errNotReady, msg)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errNotReady, ctx.Err())
	}
}

// keepCommon makes the name that all lagpollers share lead here whenever it leads to
// none of them, until ctx ends.
func (s *Server) keepCommon(ctx context.Context) {
	s.o.Dir.Watch(ctx, rundir.Lagpoller, s.o.Log, func([]rundir.Instance) {
		if err := s.takeCommon(ctx); err != nil {
			s.o.Log.Warn("services of the release before do not find the bus", obs.KeyError, err)
		}
	})
}

func (s *Server) takeCommon(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.common != nil || ctx.Err() != nil || answers(ctx, s.o.Dir.Join(bus.SocketName)) {
		return nil
	}
	l, err := s.o.Claim.ListenAs(bus.SocketName)
	if err != nil {
		return err
	}
	s.bridge.open(l)
	s.common = l
	return nil
}

// answers reports whether a running process answers on the socket.
func answers(ctx context.Context, socket string) bool {
	c, err := rundir.Dial(ctx, socket)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// server gives the server that runs.
func (s *Server) server() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nats
}

// InProcessConn connects the lagpoller's own client without a socket.
func (s *Server) InProcessConn() (net.Conn, error) { return s.server().InProcessConn() }

// Addr gives the TCP address of bus.listen, nil without one.
func (s *Server) Addr() net.Addr { return s.addr }

// Connections gives the number of clients, the lagpoller's own included.
func (s *Server) Connections() int { return s.server().NumClients() }

// SlowConsumers counts the clients cut off because they did not read.
func (s *Server) SlowConsumers() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slow + s.nats.NumSlowConsumers()
}

// Routes gives the number of other servers that this one is joined with.
func (s *Server) Routes() int { return s.server().NumRoutes() }

// Close closes all doors and waits until every connection has ended. The sockets'
// names go first, so that services that are cut off find only others, and that a name
// is never taken from a successor.
func (s *Server) Close() error {
	if s.stop != nil {
		s.stop()
		s.wg.Wait()
	}
	var failed []error
	for _, socket := range []*rundir.Socket{s.common, s.own} { // the common one first: when the other one goes, its successors look whether it is free
		if socket != nil {
			failed = append(failed, socket.Remove())
		}
	}
	s.bridge.stopAccepting()
	end(s.server())
	s.bridge.close()
	return errors.Join(failed...)
}
