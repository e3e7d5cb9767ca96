package news

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// Reader gets the news. Its methods are called from the bus's goroutines.
type Reader interface {
	Lag(bus.Lag)
	Topology(bus.Topology)
	Verdict(database string, key sqltoken.Key, v verdict.Verdict)
	FlushVerdicts(database string, generation uint64)
}

// Paper is the router's connection to the bus.
type Paper struct {
	ctx     context.Context
	env     *service.Env
	nc      *nats.Conn
	metrics *bus.Metrics
	wants   chan lsn.Position
	warmth  warmth
	wg      sync.WaitGroup
	stop    context.CancelFunc
}

// Open connects, now or whenever there is a bus.
func Open(ctx context.Context, env *service.Env) (*Paper, error) {
	m, err := bus.NewMetrics(env.Metrics)
	if err != nil {
		return nil, err
	}
	nc, err := bus.Connect(ctx, env.Dir, bus.Options{
		Name: "router." + env.Claim.ID(), Log: env.Log, Metrics: m, URL: env.Config.Bus.URL, SecretFile: env.Config.Bus.SecretFile,
	})
	if err != nil {
		return nil, err
	}
	p := &Paper{env: env, nc: nc, metrics: m, wants: make(chan lsn.Position, 1), warmth: newWarmth()}
	p.ctx, p.stop = context.WithCancel(ctx)
	p.wg.Go(p.publish)
	return p, nil
}

// Close ends the connection and waits for its goroutines.
func (p *Paper) Close() {
	p.stop()
	p.nc.Close()
	p.wg.Wait()
}

// Deliver subscribes r to the news, and asks for what is known already.
func (p *Paper) Deliver(r Reader) error {
	for _, subscribe := range []func() (*nats.Subscription, error){
		func() (*nats.Subscription, error) {
			return bus.Subscribe(p.nc, bus.SubjectLag+"*", p.metrics, r.Lag)
		},
		func() (*nats.Subscription, error) {
			return bus.Subscribe(p.nc, bus.SubjectTopology, p.metrics, r.Topology)
		},
		func() (*nats.Subscription, error) {
			return bus.Subscribe(p.nc, bus.SubjectVerdictFlush, p.metrics, func(m bus.Flush) { r.FlushVerdicts(m.Database, m.Generation) })
		},
		func() (*nats.Subscription, error) {
			return bus.Subscribe(p.nc, bus.SubjectVerdict+"*", p.metrics, func(m bus.Verdict) { p.deliver(r, bus.SubjectVerdict+"*", m) })
		},
	} {
		if _, err := subscribe(); err != nil {
			return err
		}
	}
	p.wg.Go(func() { p.catchUp(r) })
	p.wg.Go(func() { p.warmUp(r) })
	return nil
}

// deliver passes a verdict on, if all of it is understood. One that is not, of a newer
// classifier for one, is counted and otherwise ignored, so that the statement is asked
// about.
func (p *Paper) deliver(r Reader, subject string, m bus.Verdict) {
	key, v, err := verdict.FromMessage(m)
	if err != nil {
		p.metrics.Ignore(subject, err)
		return
	}
	r.Verdict(m.Database, key, v)
}

// catchUp asks for the present state until it is given.
func (p *Paper) catchUp(r Reader) {
	for p.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(p.ctx, time.Second)
		lags, err := bus.Request[bus.LagSnapshot](ctx, p.nc, bus.SubjectLagSnapshot)
		if err == nil {
			for _, l := range lags.Backends {
				r.Lag(l)
			}
			var top bus.Topology
			if top, err = bus.Request[bus.Topology](ctx, p.nc, bus.SubjectTopologySnapshot); err == nil {
				r.Topology(top)
			}
		}
		cancel()
		if err == nil {
			return
		}
		select {
		case <-p.ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Want makes the lagpoller look for the position. It never blocks: while one is
// being published, a later one takes the place of those before.
func (p *Paper) Want(at lsn.Position) {
	select {
	case p.wants <- at:
	default:
		select {
		case <-p.wants:
		default:
		}
		select {
		case p.wants <- at:
		default:
		}
	}
}

const (
	// wantPause is how often one position is asked for at most.
	wantPause = 200 * time.Millisecond
	// wantGap is the least time between two positions: what comes meanwhile is told as
	// one.
	wantGap = time.Millisecond
)

func (p *Paper) publish() {
	var last lsn.Position
	var when time.Time
	for {
		select {
		case <-p.ctx.Done():
			return
		case at := <-p.wants:
			if last.Covers(at) && time.Since(when) < wantPause {
				continue
			}
			last, when = at, time.Now()
			err := bus.Publish(p.nc, bus.SubjectFenceWant, bus.Want{V: bus.Version, Router: p.env.Claim.ID(), Position: at, At: when})
			if err != nil && !bus.Offline(err) {
				p.env.Log.Warn("cannot ask for a position", obs.KeyError, err)
			}
			select {
			case <-p.ctx.Done():
				return
			case <-time.After(wantGap):
			}
		}
	}
}
