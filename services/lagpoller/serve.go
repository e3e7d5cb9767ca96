package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/busserver"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/cluster"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/news"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/poll"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/want"
)

// Parts of /readyz.
const (
	partBus      = "bus"
	partBackends = "backends"
)

// serve runs the service until ctx ends. Order of start: the bus server, this
// service's own connection to it, what answers and listens there, the pollers.
// The end is the same in reverse.
func serve(ctx context.Context, env *service.Env) (err error) {
	var server *busserver.Server // nil where the bus is elsewhere
	if env.Config.Bus.URL == "" {
		server, err = busserver.Start(ctx, busserver.Options{Bus: env.Config.Bus, Claim: env.Claim, Dir: env.Dir, Log: env.Log})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
	}
	env.Health.Set(partBackends, errors.New("the first round of polls is not finished"))
	nc, metrics, err := join(ctx, env, server)
	if err != nil {
		return err
	}
	defer nc.Close()

	self, err := bus.Identity(env.Dir, env.Claim.ID())
	if err != nil {
		return err
	}
	desk := news.NewDesk(nc, self, env.Log)
	env.Health.Note("servers", func() string {
		topology, _ := desk.Topology()
		return cluster.Ailments(desk.Snapshot(), topology)
	})
	board := want.NewBoard()
	pollMetrics, err := register(env.Metrics, server, desk)
	if err != nil {
		return err
	}
	pollers := poll.NewSet(desk, board, pollMetrics, env.Log)
	defer pollers.Close()
	pollers.Apply(ctx, env.Config)
	stop, err := attend(nc, env, desk, board, metrics)
	if err != nil {
		return err
	}
	defer stop()
	return run(ctx, env, desk, pollers)
}

// join gives this service's own connection to the bus: within the process, or to
// where it is. It outlives ctx by the moment that the pollers need to end.
func join(ctx context.Context, env *service.Env, server *busserver.Server) (*nats.Conn, *bus.Metrics, error) {
	metrics, err := bus.NewMetrics(env.Metrics)
	if err != nil {
		return nil, nil, err
	}
	env.Health.Set(partBus, errors.New("not connected yet"))
	o := bus.Options{
		Name: rundir.Lagpoller + "." + env.Claim.ID(), Log: env.Log, Bus: env.Config.Bus, Metrics: metrics,
		Changed: func(lost error) { env.Health.Set(partBus, lost) },
	}
	if server != nil {
		o.InProcess = server
	}
	nc, err := bus.Connect(context.WithoutCancel(ctx), env.Dir, o)
	return nc, metrics, err
}

func register(reg *prometheus.Registry, server *busserver.Server, desk *news.Desk) (*poll.Metrics, error) {
	collectors := []prometheus.Collector{cluster.NewCollector(desk.Snapshot, desk.Diverged, desk.Superseded)}
	if server != nil {
		collectors = append(collectors,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "pgpilot_bus_connections", Help: "Clients connected to the bus, this service included.",
			}, func() float64 { return float64(server.Connections()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "pgpilot_bus_routes", Help: "Buses of other lagpollers that this one is joined with.",
			}, func() float64 { return float64(server.Routes()) }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "pgpilot_bus_slow_consumers_total", Help: "Clients of the bus that were cut off because they did not read.",
			}, func() float64 { return float64(server.SlowConsumers()) }))
	}
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return poll.NewMetrics(reg)
}

// attend answers and listens on the bus until the returned function is called.
func attend(nc *nats.Conn, env *service.Env, desk *news.Desk, board *want.Board, metrics *bus.Metrics) (stop func(), err error) {
	registration, err := bus.Register(nc, rundir.Lagpoller, env.Claim.ID(), env.Version)
	if err != nil {
		return nil, err
	}
	stop = func() { _ = registration.Stop() }
	if err := desk.Answer(registration); err != nil {
		stop()
		return nil, err
	}
	_, err = bus.Subscribe(nc, bus.SubjectFenceWant, metrics, func(w bus.Want) {
		board.Hear(w.Router, w.Position, time.Now())
	})
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// run repeats the topology and takes new configurations until ctx ends.
func run(ctx context.Context, env *service.Env, desk *news.Desk, pollers *poll.Set) error {
	var current atomic.Pointer[config.Config]
	current.Store(env.Config)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		desk.Repeat(ctx, func() time.Duration { return current.Load().Health.Interval.D() })
	})
	asked := pollers.Asked()
	wg.Go(func() {
		for _, first := range asked {
			<-first
		}
		env.Health.Set(partBackends, nil)
		env.Health.Ready()
	})
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-env.Reloads:
			current.Store(c)
			pollers.Apply(ctx, c)
		}
	}
}
