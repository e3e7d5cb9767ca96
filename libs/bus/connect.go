package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// inboxPrefix keeps the services' answers apart from the _INBOX subjects that
// other clients of a shared NATS listen on.
const inboxPrefix = "_PGPILOT"

// A bus that hangs without closing its connections is left for another one when this
// many pings, one at each interval, have no answer at the next: within a second.
const (
	pingInterval = 300 * time.Millisecond
	pingsOut     = 2
)

// Options of Connect.
type Options struct {
	// Name shows in the server's list of connections: service and instance.
	Name string
	// Log gets one line whenever the bus is lost or found. Required.
	Log *slog.Logger
	// Bus says where it is and how to sign in. Its zero value is the run directory's.
	Bus config.Bus
	// InProcess is the embedded server itself, for the process that runs it.
	InProcess nats.InProcessConnProvider
	// Metrics counts; nil counts nothing.
	Metrics *Metrics
	// Changed, if set, is told when the bus is found and when it is lost, with the
	// reason. It is called from one goroutine and must not block.
	Changed func(lost error)
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
		nats.MaxPingsOutstanding(pingsOut),
		nats.CustomInboxPrefix(inboxPrefix),
		nats.ConnectHandler(func(*nats.Conn) {
			o.Metrics.connection(true)
			o.Log.Info("bus connected")
			out.over()
			o.changed(nil)
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			o.Metrics.connection(true)
			o.Log.Info("bus connected again")
			out.over()
			o.changed(nil)
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { out.because(err) }),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			o.Metrics.connection(false)
			o.changed(errLost)
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
	login, err := signIn(dir, o.Bus, o.Log)
	if err != nil {
		return nil, err
	}
	// Where the bus is, is for the configuration to say.
	opts = append(append(opts, login...), nats.IgnoreDiscoveredServers())
	url := o.Bus.URL
	switch {
	case url == "":
		url = "nats://" + SocketName
		opts = append(opts, nats.SkipHostLookup(), nats.SetCustomDialer(newSocketDialer(ctx, dir)))
		if o.InProcess != nil {
			opts = append(opts, nats.InProcessServer(o.InProcess))
		}
	case o.Bus.CAFile != "":
		opts = append(opts, nats.RootCAs(o.Bus.CAFile))
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

// errLost is what Options.Changed is told.
var errLost = errors.New("the bus is not reachable")

func (o *Options) changed(lost error) {
	if o.Changed != nil {
		o.Changed(lost)
	}
}

// Offline reports whether a publish or request failed only because there is no
// bus at the moment. Connect is already looking for it.
func Offline(err error) bool {
	return errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrConnectionReconnecting)
}
