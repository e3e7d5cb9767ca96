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
	wants   *wants
	// self is the router's name on the bus.
	self   string
	warmth warmth
	first  firstWord
	wg     sync.WaitGroup
	stop   context.CancelFunc
}

// Open connects, now or whenever there is a bus.
func Open(ctx context.Context, env *service.Env) (*Paper, error) {
	m, err := bus.NewMetrics(env.Metrics)
	if err != nil {
		return nil, err
	}
	self, err := bus.Identity(env.Dir, env.Claim.ID())
	if err != nil {
		return nil, err
	}
	nc, err := bus.Connect(ctx, env.Dir, bus.Options{
		Name: "router." + env.Claim.ID(), Log: env.Log, Metrics: m, Bus: env.Config.Bus,
	})
	if err != nil {
		return nil, err
	}
	p := &Paper{env: env, nc: nc, metrics: m, wants: newWants(), self: self, warmth: newWarmth(), first: firstWord{known: make(chan struct{})}}
	p.ctx, p.stop = context.WithCancel(ctx)
	p.wg.Go(func() { p.wants.run(p.ctx, p.publish) })
	return p, nil
}

// Host tells this run directory from all others on the bus (bus.HostOf).
func (p *Paper) Host() string { return bus.HostOf(p.self) }

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
			return bus.Subscribe(p.nc, bus.SubjectTopology, p.metrics, func(m bus.Topology) { p.topology(r, m) })
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

// askAgain is the pause after the present state could not be had.
const askAgain = 200 * time.Millisecond

// catchUp asks for the present state, at the start and whenever the bus was away: what
// was published meanwhile is lost.
func (p *Paper) catchUp(r Reader) {
	connected := p.nc.StatusChanged(nats.CONNECTED)
	defer p.nc.RemoveStatusListener(connected)
	for {
		var again <-chan time.Time
		if err := p.askForState(r); err != nil {
			p.env.Log.Debug("no news from the bus yet", obs.KeyError, err)
			again = time.After(askAgain)
		}
		select {
		case <-p.ctx.Done():
			return
		case <-connected:
		case <-again:
		}
	}
}

func (p *Paper) askForState(r Reader) error {
	ctx, cancel := context.WithTimeout(p.ctx, time.Second)
	defer cancel()
	lags, err := bus.Request[bus.LagSnapshot](ctx, p.nc, bus.SubjectLagSnapshot)
	if err != nil {
		return err
	}
	for _, l := range lags.Backends {
		r.Lag(l)
	}
	top, err := bus.Request[bus.Topology](ctx, p.nc, bus.SubjectTopologySnapshot)
	if err != nil {
		return err
	}
	p.topology(r, top)
	return nil
}

// Want makes the lagpollers look for the position. It never blocks.
func (p *Paper) Want(at lsn.Position) { p.wants.put(at) }

func (p *Paper) publish(at lsn.Position, now time.Time) {
	err := bus.Publish(p.nc, bus.SubjectFenceWant, bus.Want{V: bus.Version, Router: p.self, Position: at, At: now})
	if err != nil && !bus.Offline(err) {
		p.env.Log.Warn("cannot ask for a position", obs.KeyError, err)
	}
}
