package news

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/cluster"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/probe"
)

// Desk is safe for concurrent use.
type Desk struct {
	nc  *nats.Conn
	log *slog.Logger

	mu    sync.Mutex
	state *cluster.State
	// offline keeps one outage of the bus from filling the log.
	offline bool
	// told has what the log has been told about servers that must be looked after.
	told map[string]bool
}

// NewDesk publishes on nc as the lagpoller instance named publisher.
func NewDesk(nc *nats.Conn, publisher string, log *slog.Logger) *Desk {
	return &Desk{nc: nc, log: log, state: cluster.New(publisher, time.Now())}
}

// Configure sets which backends there are.
func (d *Desk) Configure(backends []config.Backend) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state.Configure(backends, time.Now()) {
		d.tellTopologyLocked()
	}
	d.warnLocked()
}

// Observed takes and publishes what a backend said.
func (d *Desk) Observed(backend string, o probe.Observation, points []lsn.Position) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lag, changed, ok := d.state.Observed(backend, o, points)
	d.tellLocked(lag, changed, ok)
}

// Failed takes and publishes that a backend could not be asked.
func (d *Desk) Failed(backend string, err error, ill bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lag, changed, ok := d.state.Failed(backend, err, ill, time.Now())
	d.tellLocked(lag, changed, ok)
}

// tellLocked sends the topology first: it says what the positions mean.
func (d *Desk) tellLocked(lag bus.Lag, changed, ok bool) {
	if !ok {
		return
	}
	if changed {
		d.tellTopologyLocked()
	}
	d.sentLocked(bus.Publish(d.nc, bus.SubjectLag+bus.SafeName(lag.Backend), lag))
	d.warnLocked()
}

// warnLocked tells the log once about each server that somebody must look after.
func (d *Desk) warnLocked() {
	diverged, superseded, cutOff := d.state.Diverged(), d.state.Superseded(), d.state.CutOff()
	if len(diverged)+len(superseded)+len(cutOff)+len(d.told) == 0 {
		return
	}
	before := d.told
	d.told = make(map[string]bool, len(diverged)+len(superseded)+len(cutOff))
	warn := func(what string, l bus.Lag, args ...any) {
		key := what + l.Backend
		d.told[key] = true
		if !before[key] {
			d.log.Warn(what, append([]any{obs.KeyBackend, l.Backend}, args...)...)
		}
	}
	for _, l := range diverged {
		warn("replica is not used: it is not of the primary's history", l, obs.KeyError, l.Error)
	}
	for _, l := range cutOff {
		warn("replica receives nothing from the primary: what it shows grows old", l)
	}
	for _, l := range superseded {
		warn("nothing is written to this server: it answers as a primary, but another was promoted in its place. Stop it, and rebuild it as a replica", l)
	}
}

func (d *Desk) tellTopologyLocked() {
	if t, decided := d.state.Topology(time.Now()); decided {
		d.sentLocked(bus.Publish(d.nc, bus.SubjectTopology, t))
	}
}

func (d *Desk) sentLocked(err error) {
	if err != nil && !d.offline {
		d.log.Warn("news cannot be published", obs.KeyError, err)
	}
	d.offline = err != nil
}

// Repeat publishes the topology at every interval until ctx ends. The interval
// may change between two calls.
func (d *Desk) Repeat(ctx context.Context, interval func() time.Duration) {
	timer := time.NewTimer(interval())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		d.mu.Lock()
		d.tellTopologyLocked()
		d.mu.Unlock()
		timer.Reset(interval())
	}
}

// Snapshot gives the last message of every backend.
func (d *Desk) Snapshot() bus.LagSnapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.Snapshot()
}

// Diverged gives the last messages of the replicas that have left the primary's
// history.
func (d *Desk) Diverged() []bus.Lag {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.Diverged()
}

// Superseded gives the last messages of servers that answer as a primary although
// another was promoted in their place.
func (d *Desk) Superseded() []bus.Lag {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.Superseded()
}

// Topology gives the present topology. decided is false until every server has been asked
// once.
func (d *Desk) Topology() (t bus.Topology, decided bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.Topology(time.Now())
}

// Answer adds the snapshot requests to the lagpoller's registration.
func (d *Desk) Answer(s micro.Service) error {
	lag := func(r micro.Request) { answer(r, d.Snapshot(), d.log) }
	topology := func(r micro.Request) {
		if t, decided := d.Topology(); decided {
			answer(r, t, d.log)
		} else if err := r.Error("503", "not every server has been asked yet", nil); err != nil { // it is asked again, or another is
			d.log.Warn("snapshot request not answered", obs.KeySubject, r.Subject(), obs.KeyError, err)
		}
	}
	if err := s.AddEndpoint("lag-snapshot", micro.HandlerFunc(lag), micro.WithEndpointSubject(bus.SubjectLagSnapshot)); err != nil {
		return fmt.Errorf("answer lag snapshots: %w", err)
	}
	if err := s.AddEndpoint("topology-snapshot", micro.HandlerFunc(topology), micro.WithEndpointSubject(bus.SubjectTopologySnapshot)); err != nil {
		return fmt.Errorf("answer topology snapshots: %w", err)
	}
	return nil
}

func answer[M bus.Message](r micro.Request, m M, log *slog.Logger) {
	b, err := bus.Encode(m)
	if err == nil {
		err = r.Respond(b)
	}
	if err != nil {
		log.Warn("snapshot request not answered", obs.KeySubject, r.Subject(), obs.KeyError, err)
	}
}
