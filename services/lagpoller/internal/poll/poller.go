package poll

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/news"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/probe"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/want"
)

// poller asks one backend. All but reloaded and asked belongs to run's goroutine.
type poller struct {
	backend  config.Backend
	settings *atomic.Pointer[Settings]
	desk     *news.Desk
	board    *want.Board
	metrics  *Metrics
	log      *slog.Logger
	reloaded chan struct{}
	// asked is closed after the first poll.
	asked chan struct{}

	conn *probe.Conn
	// unwatch ends the closing of conn at the end of the context.
	unwatch func() bool
	// last is the latest observation, if the latest poll succeeded.
	last probe.Observation
	// points are the switch points of pointsOf, asked for on conn.
	points   []lsn.Position
	pointsOf lsn.Timeline
	failures int
	// compared says that the names of the configuration have been looked for on conn,
	// misnamed which were last said to be missing.
	compared bool
	misnamed string
	// unreadable says that conn may not read what is stored for roles and databases.
	unreadable bool
	// complaint is what was last logged, so that one trouble is logged once.
	complaint string
}

// reload lets the poller look at its settings now.
func (p *poller) reload() {
	select {
	case p.reloaded <- struct{}{}:
	default:
	}
}

func (p *poller) run(ctx context.Context) {
	defer p.hangUp()
	bell, off := p.board.Bell()
	defer off()
	for first := true; ; first = false {
		pause := p.poll(ctx)
		if first {
			close(p.asked)
		}
		if ctx.Err() != nil || !p.rest(ctx, pause, bell) {
			return
		}
	}
}

// poll asks for everything once and reports it. It gives the pause before the next.
func (p *poller) poll(ctx context.Context) time.Duration {
	s := *p.settings.Load()
	p.metrics.polls.WithLabelValues(p.backend.Name).Inc()
	o, err := p.ask(ctx, s)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		p.failed(err, s)
		return s.backoff(p.failures)
	}
	p.succeeded(o)
	return s.Interval
}

// ask gets an observation, on the kept connection or on a new one. A kept
// connection that turns out to be broken says only that something happened since
// the last poll, so the backend gets a second chance at once.
func (p *poller) ask(ctx context.Context, s Settings) (probe.Observation, error) {
	kept := p.conn != nil
	o, err := p.askOnce(ctx, s)
	if err != nil && kept && p.conn == nil && ctx.Err() == nil {
		p.log.Debug("connection lost, trying a new one", obs.KeyError, err)
		o, err = p.askOnce(ctx, s)
	}
	return o, err
}

func (p *poller) askOnce(ctx context.Context, s Settings) (probe.Observation, error) {
	if err := p.dial(ctx, s); err != nil {
		return probe.Observation{}, err
	}
	o, err := p.conn.Observe(s.Timeout)
	if err == nil && o.Incarnation.Timeline != p.pointsOf {
		err = p.history(o, s)
	}
	if err != nil && !errors.Is(err, probe.ErrTurning) {
		p.hangUp()
	}
	if err == nil && o.Role == bus.Primary {
		o.Settings = p.stored(s)
	}
	if err == nil && o.Role == bus.Primary && !p.compared && p.conn != nil {
		p.compare(s)
	}
	return o, err
}

// stored gives what identifies the settings of roles and databases. Routers do without it
// where it cannot be had: then they see changes with the next connection that they make.
func (p *poller) stored(s Settings) string {
	if p.unreadable {
		return ""
	}
	digest, err := p.conn.StoredSettings(s.Timeout)
	switch {
	case probe.Refused(err):
		p.unreadable = true
		p.log.Warn("cannot read pg_db_role_setting: routers learn of ALTER ROLE and ALTER DATABASE late; GRANT SELECT on it to the monitor", obs.KeyError, err)
	case err != nil:
		p.log.Debug("cannot ask for the settings of roles and databases", obs.KeyError, err)
		p.hangUp() // its answer may still come
	}
	return digest
}

func (p *poller) dial(ctx context.Context, s Settings) error {
	if p.conn != nil {
		return nil
	}
	t, err := s.target(p.backend)
	if err != nil {
		return err
	}
	c, err := probe.Dial(ctx, t, s.Timeout)
	if err != nil {
		return err
	}
	p.conn = c
	p.pointsOf, p.points = 0, nil               // it may be another server by now
	p.unwatch = context.AfterFunc(ctx, c.Close) // ends a read that waits for a silent server
	return nil
}

func (p *poller) hangUp() {
	if p.conn == nil {
		return
	}
	p.unwatch()
	p.conn.Close()
	p.conn, p.compared, p.unreadable = nil, false, false
}

// history asks a server where the timelines before its own ended. A primary that has lost the
// file is still one; fences of earlier timelines then cannot be carried over. A replica
// without it may have been promoted elsewhere, and nobody could tell.
func (p *poller) history(o probe.Observation, s Settings) error {
	points, err := p.conn.History(o.Incarnation.Timeline, s.Timeout)
	if probe.Refused(err) {
		if o.Role == bus.Primary {
			p.log.Warn("the primary does not know where its earlier timelines ended", obs.KeyError, err)
		}
		err = nil
	}
	if err != nil {
		return err
	}
	p.points, p.pointsOf = points, o.Incarnation.Timeline
	return nil
}

func (p *poller) succeeded(o probe.Observation) {
	if p.complaint != "" {
		p.log.Info("backend answers again", obs.KeyRole, string(o.Role))
	}
	p.failures, p.complaint = 0, ""
	p.last = o
	p.desk.Observed(p.backend.Name, o, p.points)
}

func (p *poller) failed(err error, s Settings) {
	p.metrics.errors.WithLabelValues(p.backend.Name).Inc()
	if !probe.Full(err) {
		p.failures++
	}
	ill := p.failures >= s.FailureThreshold
	if complaint := fmt.Sprint(ill, err); complaint != p.complaint {
		p.complaint = complaint
		p.log.Warn("backend does not answer", obs.KeyError, err, "ill", ill)
	}
	p.last = probe.Observation{}
	p.desk.Failed(p.backend.Name, err, ill)
}

// rest waits until the next poll is due, polling in bursts meanwhile when a router
// wants it. It gives false when ctx has ended.
func (p *poller) rest(ctx context.Context, pause time.Duration, bell <-chan struct{}) bool {
	due := time.Now().Add(pause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		if p.wanted() && !p.burst(ctx, due) {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-p.reloaded:
			p.compared = false
			return true
		case <-bell:
		}
	}
}

// wanted reports whether some router waits for what this backend may soon replay.
func (p *poller) wanted() bool {
	if p.conn == nil || p.last.Role != bus.Replica {
		return false
	}
	replayed := lsn.Position{Timeline: p.last.Incarnation.Timeline, LSN: p.last.Replay}
	return want.Behind(replayed, p.board.Wanted(time.Now()))
}

// burst asks for the replay position until it is what is wanted, nothing is wanted
// any more, or the next full poll is due. It gives false when that poll should be
// made now.
func (p *poller) burst(ctx context.Context, due time.Time) bool {
	s := *p.settings.Load()
	p.metrics.bursts.WithLabelValues(p.backend.Name).Inc()
	polls := p.metrics.burstPolls.WithLabelValues(p.backend.Name)
	moved := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for p.wanted() {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
		polls.Inc()
		o, err := p.conn.ObserveReplay(s.Timeout)
		if err != nil {
			if !errors.Is(err, probe.ErrTurning) {
				p.hangUp()
			}
			return false // the full poll finds out and reports what happened
		}
		if o.Replay != p.last.Replay {
			moved = o.Answered
			o.Receive, o.Receiving = p.last.Receive, p.last.Receiving
			p.succeeded(o)
		}
		if o.Answered.After(due) {
			return false
		}
		timer.Reset(s.burstPause(o.Answered.Sub(moved)))
	}
	return true
}
