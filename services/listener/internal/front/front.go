package front

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/listener/internal/login"
	"github.com/pgpilot/pgpilot/services/listener/internal/startup"
)

const (
	// finishTimeout is how long logins in progress may hold up the end.
	finishTimeout = 5 * time.Second
	// parkTimeout is the longest that an authenticated client waits for a router that
	// is there and busy. Where there is none it waits less (routers.Fleet).
	parkTimeout = 30 * time.Second
	// minPause and maxPause bound the wait after a failed accept, most likely for
	// want of descriptors.
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

// Gate lets clients in (login.Gate).
type Gate interface {
	Admit(ctx context.Context, c *startup.Client) (*login.Request, error)
}

// Routers serve sessions (routers.Fleet).
type Routers interface {
	HandOver(ctx context.Context, r *handoff.Record, fd int) error
	Cancel(ctx context.Context, key handoff.CancelKey, over func(found bool))
	Leave(ctx context.Context, sessions []string)
}

// Places are given back when a session finds no router (ledger.Ledger).
type Places interface{ Close(session string) }

// Front is the way in.
type Front struct {
	gate    Gate
	routers Routers
	places  Places
	log     *slog.Logger
	metrics metrics
	crowd   *crowd
	relays  *relays
}

type metrics struct {
	connections *prometheus.CounterVec
	failures    *prometheus.CounterVec
}

// New gives a front. Nothing happens before Run.
func New(g Gate, r Routers, p Places, reg prometheus.Registerer, log *slog.Logger) *Front {
	f := &Front{gate: g, routers: r, places: p, log: log, crowd: newCrowd(), relays: newRelays(), metrics: metrics{
		connections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgpilot_listener_connections_total",
			Help: "Connections accepted, by transport: tcp or unix.",
		}, []string{"transport"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgpilot_listener_login_failures_total",
			Help: "Connections that did not become a session, by reason.",
		}, []string{"reason"}),
	}}
	reg.MustRegister(f.metrics.connections, f.metrics.failures, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pgpilot_listener_logins",
		Help: "Clients on their way in: logging in or waiting for a router.",
	}, func() float64 { return float64(f.crowd.len()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pgpilot_listener_tls_sessions",
		Help: "Sessions whose TLS connections are carried here.",
	}, func() float64 { return float64(f.relays.len()) }))
	return f
}

// Run serves the listening sockets until ctx ends. Then it calls closeSockets, which
// must close them, gives logins in progress a few seconds and sends the rest away, asks
// the routers to end the sessions over TLS and cuts off those that are left after a
// while, and returns when all are done.
func (f *Front) Run(ctx context.Context, ls []net.Listener, closeSockets func() error) error {
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	var accepting, clients sync.WaitGroup
	for _, l := range ls {
		accepting.Go(func() { f.accept(ctx, serving, l, &clients) })
	}
	<-ctx.Done()
	err := closeSockets()
	accepting.Wait()
	finish := time.AfterFunc(finishTimeout, stopServing)
	defer finish.Stop()
	cut := time.AfterFunc(leaveTimeout, f.relays.cut)
	defer cut.Stop()
	if n := f.relays.len(); n > 0 {
		f.log.Info("sessions over TLS end with this listener", obs.KeyCount, n)
	}
	telling, stopTelling := context.WithCancel(context.WithoutCancel(ctx))
	var teller sync.WaitGroup
	teller.Go(func() { f.tellToLeave(telling) })
	clients.Wait()
	stopTelling()
	teller.Wait()
	return err
}

// tellEvery is when sessions over TLS are told again to end.
const tellEvery = time.Second

// tellToLeave asks for the end of the sessions over TLS until ctx ends: again and again,
// since some may come yet, and one that was on its way between two routers may have been
// missed.
func (f *Front) tellToLeave(ctx context.Context) {
	again := time.NewTicker(tellEvery)
	defer again.Stop()
	for {
		f.routers.Leave(ctx, f.relays.sessions())
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// accept takes clients from one listening socket until it is closed.
func (f *Front) accept(ctx, serving context.Context, l net.Listener, clients *sync.WaitGroup) {
	pause := minPause
	for {
		c, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			f.log.Error("clients cannot be accepted", obs.KeyAddress, l.Addr().String(), obs.KeyError, err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, maxPause)
			continue
		}
		pause = minPause
		f.metrics.connections.WithLabelValues(l.Addr().Network()).Inc()
		if f.crowd.admit(ctx) != nil {
			c.Close()
			return
		}
		clients.Go(func() {
			f.serve(serving, startup.NewClient(c.(startup.Conn))) // both kinds of listeners give such
		})
	}
}
