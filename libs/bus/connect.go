package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

// SocketName is the bus's socket in the run directory.
const SocketName = "bus.sock"

// inboxPrefix keeps the services' answers apart from the _INBOX subjects that
// other clients of a shared NATS listen on.
const inboxPrefix = "_PGPILOT"

// pingInterval bounds how long a bus that hangs without closing its connections
// goes unnoticed (twice this).
const pingInterval = 5 * time.Second

// Options of Connect.
type Options struct {
	// Name shows in the server's list of connections: service and instance.
	Name string
	// Log gets one line whenever the bus is lost or found. Required.
	Log *slog.Logger
	// URL leads to the bus of a lagpoller elsewhere (bus.url). Empty: the run
	// directory's bus.
	URL string
	// SecretFile has what the services' key is made of (bus.secret_file). Empty: the
	// run directory's secret.
	SecretFile string
	// InProcess is the embedded server itself, for the process that runs it.
	InProcess nats.InProcessConnProvider
	// Metrics counts; nil counts nothing.
	Metrics *Metrics
}

// Connect gives a connection to the bus that looks for it for ever: also when
// there is no bus yet, it returns at once and connects later. Subscriptions made
// meanwhile take effect then. What is published while the bus is away is lost
// with an error, never queued: old news is worse than none.
//
// The connection closes when ctx ends, or earlier with Close.
func Connect(ctx context.Context, dir *rundir.Dir, o Options) (*nats.Conn, error) {
	out := &outage{log: o.Log}
	opts := []nats.Option{
		nats.Name(o.Name),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1),
		nats.CustomReconnectDelay(out.delay),
		// A bus that refuses the credential may be restarted with another one.
		nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(pingInterval),
		nats.CustomInboxPrefix(inboxPrefix),
		nats.ConnectHandler(func(*nats.Conn) {
			o.Metrics.connection(true)
			o.Log.Info("bus connected")
			out.over()
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			o.Metrics.connection(true)
			o.Log.Info("bus connected again")
			out.over()
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { out.because(err) }),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			o.Metrics.connection(false)
			if !nc.IsClosed() && ctx.Err() == nil {
				out.because(err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			o.Log.Warn("bus reports an error", "subject", subject, "error", err)
		}),
	}
	key, err := Credential(dir, o.SecretFile)
	if err != nil {
		return nil, err
	}
	opts = append(opts, nats.Nkey(key.Public, key.Sign), nats.IgnoreDiscoveredServers())
	url := o.URL
	if url == "" {
		url = "nats://" + SocketName
		opts = append(opts,
			nats.SkipHostLookup(),
			nats.SetCustomDialer(socketDialer{ctx: ctx, path: dir.Join(SocketName)}))
		if o.InProcess != nil {
			opts = append(opts, nats.InProcessServer(o.InProcess))
		}
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to the bus: %w", err)
	}
	out.nc.Store(nc)
	forget := context.AfterFunc(ctx, nc.Close)
	nc.SetClosedHandler(func(*nats.Conn) { forget() })
	return nc, nil
}

// socketDialer leads every address to the bus's socket.
type socketDialer struct {
	ctx  context.Context
	path string
}

// dialTimeout of a Unix socket, which answers at once or is overloaded.
const dialTimeout = 2 * time.Second

// Dial implements nats.CustomDialer.
func (d socketDialer) Dial(string, string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, dialTimeout)
	defer cancel()
	c, err := rundir.Dial(ctx, d.path)
	if err != nil {
		return nil, err // not c: the client keeps what it gets and closes it if it is not nil
	}
	return c, nil
}

// Offline reports whether a publish or request failed only because there is no
// bus at the moment. Connect is already looking for it.
func Offline(err error) bool {
	return errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrConnectionReconnecting)
}
