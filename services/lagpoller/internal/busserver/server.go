package busserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pgpilot/pgpilot/libs/bus"
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

// startTimeout bounds the start; the server itself reports failures only to its log.
const startTimeout = 10 * time.Second

// Options of Start.
type Options struct {
	// Listen is the operators' TCP address, host:port; port 0 takes a free one.
	// Empty: none.
	Listen string
	// SecretFile has what the services' key is made of (bus.secret_file). Empty: the
	// run directory's secret.
	SecretFile string
	// Name is the server's name: it must differ between the servers of one cluster.
	Name string
	// Claim is the lagpoller's hold on the run directory Dir.
	Claim *rundir.Claim
	Dir   *rundir.Dir
	Log   *slog.Logger
}

// Server is a running bus.
type Server struct {
	nats   *server.Server
	bridge *bridge
	socket string
}

// Start opens both doors. When it returns, the bus can be used.
func Start(ctx context.Context, o Options) (*Server, error) {
	socket := o.Dir.Join(bus.SocketName)
	if served(ctx, socket) {
		return nil, fmt.Errorf("another lagpoller already serves the bus in %s: stop it first", o.Dir.Path())
	}
	opts, err := natsOptions(o)
	if err != nil {
		return nil, err
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("set up the bus: %w", err)
	}
	log := &natsLogger{log: o.Log, fatal: make(chan string, 1), now: time.Now}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start()
	if err := started(ctx, ns, log); err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, err
	}
	l, err := o.Claim.ListenAs(bus.SocketName)
	if err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, fmt.Errorf("open the bus socket: %w", err)
	}
	return &Server{nats: ns, bridge: startBridge(l, ns, o.Log), socket: socket}, nil
}

// served reports whether a running process answers on the socket.
func served(ctx context.Context, socket string) bool {
	c, err := rundir.Dial(ctx, socket)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

func natsOptions(o Options) (*server.Options, error) {
	key, err := bus.Credential(o.Dir, o.SecretFile)
	if err != nil {
		return nil, err
	}
	opts := &server.Options{
		ServerName:      o.Name,
		NoSigs:          true, // signals belong to the service
		NoSystemAccount: true, // its statistics have no reader here
		MaxPayload:      maxPayload,
		MaxPending:      maxPending,
		MaxControlLine:  maxControl,
	}
	if err := admit(opts, key.Public); err != nil {
		return nil, fmt.Errorf("set up the bus accounts: %w", err)
	}
	if o.Listen == "" {
		opts.DontListen = true
		return opts, nil
	}
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("bus.listen %q: want host:port", o.Listen)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("bus.listen %q: the port is not a number from 0 to 65535", o.Listen)
	}
	if err := free(o.Listen); err != nil {
		return nil, err
	}
	opts.Host, opts.Port = host, int(n)
	if n == 0 {
		opts.Port = server.RANDOM_PORT
	}
	return opts, nil
}

// free says in one sentence why an address cannot be listened on. The server
// would only log it.
func free(addr string) error {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("bus.listen %s is taken by another program: stop it (another lagpoller or NATS server?) or choose another address", addr)
	}
	if err != nil {
		return fmt.Errorf("bus.listen %s cannot be listened on: %w", addr, err)
	}
	return l.Close()
}

func started(ctx context.Context, ns *server.Server, log *natsLogger) error {
	ready := make(chan bool, 1)
	go func() { ready <- ns.ReadyForConnections(startTimeout) }()
	select {
	case ok := <-ready:
		if !ok {
			return fmt.Errorf("start the bus: not ready within %v", startTimeout)
		}
		return nil
	case msg := <-log.fatal:
		return fmt.Errorf("start the bus: %s", msg)
	case <-ctx.Done():
		return fmt.Errorf("start the bus: %w", ctx.Err())
	}
}

// InProcessConn connects the lagpoller's own client without a socket.
func (s *Server) InProcessConn() (net.Conn, error) { return s.nats.InProcessConn() }

// Addr gives the operators' TCP address, nil without one.
func (s *Server) Addr() net.Addr { return s.nats.Addr() }

// Connections gives the number of clients, the lagpoller's own included.
func (s *Server) Connections() int { return s.nats.NumClients() }

// SlowConsumers counts the clients cut off because they did not read.
func (s *Server) SlowConsumers() int64 { return s.nats.NumSlowConsumers() }

// Close closes both doors and waits until every connection has ended. The
// socket's name goes first, so that it is never taken from a successor.
func (s *Server) Close() error {
	err := os.Remove(s.socket)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	s.bridge.stopAccepting()
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	s.bridge.close()
	if err != nil {
		return fmt.Errorf("remove the bus socket: %w", err)
	}
	return nil
}
