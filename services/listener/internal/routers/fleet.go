package routers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/services/listener/internal/parking"
	"github.com/pgpilot/pgpilot/services/listener/internal/sibling"
)

const (
	// window is how many sessions may be on their way to one router. Descriptors in
	// flight count against the file limit of the sender's user.
	window = 64
	// silence is how long a router that owes an answer may say nothing at all. On an
	// overloaded machine answers come late but they come; to give up a router that is
	// only slow would make it slower.
	silence = 5 * time.Second
	// lastSilence is the same for a listener that stops: sessions that it has are lost soon.
	lastSilence = time.Second
	// absence is how long a session waits while there is no router to offer it to.
	absence = 5 * time.Second
	// helloTimeout bounds the opening of a connection.
	helloTimeout = 5 * time.Second
	// minBackoff and maxBackoff bound the wait before a router is dialled again.
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// Book is told of sessions that end at a router and of those that a router already
// has when it is met.
type Book interface {
	Adopt(session string)
	Close(session string)
}

// Fleet is the routers of this host. It is safe for concurrent use.
type Fleet struct {
	dir     *rundir.Dir
	id      string
	book    Book
	log     *slog.Logger
	metrics metrics

	// silence is the constant, except in tests.
	silence time.Duration

	kin *sibling.Kin
	lot *parking.Lot
	// places bounds how many parked sessions look for a router at a time: all the others
	// would only be woken with them.
	places chan struct{}
	// gifts bounds how many are being offered to other listeners.
	gifts chan struct{}
	// work are the goroutines of parked sessions; they end with life, which is Run's.
	work sync.WaitGroup
	life context.Context
	// taking lasts until refuse is called: until then sessions are parked.
	taking context.Context
	refuse context.CancelFunc

	state struct {
		sync.Mutex
		links map[*link]struct{}
		// parked are the sessions that routers have given away, by id. They are taken from
		// when it is running until it is closed.
		parked          map[string]*parked
		running, closed bool
		// away are sessions that have gone to another listener, and until when that may have
		// them; moves counts those that have come to somebody.
		away  map[string]time.Time
		moves uint64
		// changed is closed and replaced whenever a session that found no router
		// should look again, joined when there is one more.
		changed, joined chan struct{}
	}
}

type metrics struct {
	handovers *prometheus.CounterVec
	duration  prometheus.Histogram
	parked    prometheus.Gauge
	cancels   prometheus.Counter
}

// New gives a fleet for the listener instance id. Nothing happens before Run.
func New(dir *rundir.Dir, id string, book Book, reg prometheus.Registerer, log *slog.Logger) *Fleet {
	f := &Fleet{dir: dir, id: id, book: book, log: log, metrics: metrics{
		handovers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgpilot_listener_handoffs_total",
			Help: "Attempts to hand a session to a router, by result: acknowledged, refused, lost (the router went away), unanswered, postponed (too many descriptors were on their way).",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "pgpilot_listener_handoff_duration_seconds",
			Help:    "Time from AuthenticationOk to a router's acknowledgement.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1, 5},
		}),
		parked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pgpilot_listener_parked",
			Help: "Authenticated clients that no router has yet.",
		}),
		cancels: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgpilot_listener_cancels_total",
			Help: "Cancel requests passed on to the routers.",
		}),
	}}
	f.silence = silence
	f.kin = sibling.NewKin(dir, id, log)
	f.taking, f.refuse = context.WithCancel(context.Background())
	f.places, f.gifts = make(chan struct{}, window), make(chan struct{}, giftsAtOnce)
	f.state.links = map[*link]struct{}{}
	f.state.parked = map[string]*parked{}
	f.state.away = map[string]time.Time{}
	f.state.changed, f.state.joined = make(chan struct{}), make(chan struct{})
	reg.MustRegister(f.metrics.handovers, f.metrics.duration, f.metrics.parked, f.metrics.cancels,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pgpilot_listener_routers",
			Help: "Routers that sessions can be handed to.",
		}, func() float64 { return float64(f.Len()) }))
	return f
}

// Len gives the number of routers that are connected.
func (f *Fleet) Len() int {
	f.state.Lock()
	defer f.state.Unlock()
	return len(f.state.links)
}

// Changed gives a channel that is closed at the next change of the fleet.
func (f *Fleet) Changed() <-chan struct{} {
	f.state.Lock()
	defer f.state.Unlock()
	return f.state.changed
}

func (f *Fleet) signalLocked() {
	close(f.state.changed)
	f.state.changed = make(chan struct{})
}

// Run keeps a connection to every running router until ctx ends, and waits for
// everything it started.
func (f *Fleet) Run(ctx context.Context) error {
	lot, err := parking.New()
	if err != nil {
		return err
	}
	defer lot.Close()
	var watching, links sync.WaitGroup
	defer watching.Wait()
	ctx, stop := context.WithCancel(ctx)
	f.begin(ctx, lot)
	watching.Go(func() { f.forgetAway(ctx) })
	watching.Go(func() {
		if err := lot.Run(ctx); err != nil {
			f.log.Error("parked sessions are not watched any more", obs.KeyError, err)
		}
	})
	defer func() {
		stop()
		links.Wait() // they bring the sessions that are worked on, and settle their offers
		f.cease()
		f.work.Wait()
	}()
	listed := map[string]context.CancelFunc{}
	f.dir.Watch(ctx, rundir.Router, f.log, func(now []rundir.Instance) {
		gone := listed
		listed = make(map[string]context.CancelFunc, len(now))
		for _, in := range now {
			if unlist, ok := gone[in.ID]; ok {
				listed[in.ID] = unlist
				delete(gone, in.ID)
				continue
			}
			dialling, unlist := context.WithCancel(ctx)
			listed[in.ID] = unlist
			links.Go(func() { f.maintain(ctx, dialling, in) })
		}
		for _, unlist := range gone {
			unlist()
		}
	})
	for _, unlist := range listed {
		unlist()
	}
	return nil
}

// begin lets sessions be parked.
func (f *Fleet) begin(ctx context.Context, lot *parking.Lot) {
	f.state.Lock()
	defer f.state.Unlock()
	f.life, f.lot, f.state.running = ctx, lot, true
}

// cease ends that: no work begins from then on.
func (f *Fleet) cease() {
	f.state.Lock()
	defer f.state.Unlock()
	f.state.running = false
}

// maintain dials a router again and again for as long as it is listed. A
// connection that stands outlives the listing: a router that stops still has
// sessions to report.
func (f *Fleet) maintain(ctx, listed context.Context, in rundir.Instance) {
	log := f.log.With(obs.KeyPeer, in.Service+"."+in.ID)
	backoff := minBackoff
	for f.alone(listed, in.ID) {
		met, err := f.connect(ctx, listed, in, log)
		if met {
			backoff = minBackoff
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("connection to the router ended", obs.KeyError, err)
		}
		select {
		case <-listed.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// alone waits until no connection to a router of this id stands: one that was unlisted
// for a moment still has its own. It reports false once the router is not listed any
// more.
func (f *Fleet) alone(listed context.Context, id string) bool {
	for listed.Err() == nil {
		f.state.Lock()
		changed, met := f.state.changed, false
		for l := range f.state.links {
			met = met || l.id == id
		}
		f.state.Unlock()
		if !met {
			return true
		}
		select {
		case <-changed:
		case <-listed.Done():
		}
	}
	return false
}

// connect dials a router and serves the connection to its end.
func (f *Fleet) connect(ctx, listed context.Context, in rundir.Instance, log *slog.Logger) (met bool, err error) {
	dialling, cancel := context.WithTimeout(listed, helloTimeout)
	defer cancel()
	u, err := rundir.Dial(dialling, in.Socket)
	if err != nil {
		return false, err
	}
	l := newLink(in.ID, u)
	defer l.conn.Close()
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	defer stop()
	hello, err := l.greet(f.id)
	if err != nil {
		return false, err
	}
	l.answers = hello.Answers
	f.join(l, hello.Sessions)
	f.rebalance()
	log.Info("router connected", obs.KeyCount, len(hello.Sessions))
	err = f.listen(ctx, l)
	f.leave(l)
	return true, err
}

// listen acts on a router's messages until the connection ends.
func (f *Fleet) listen(ctx context.Context, l *link) error {
	for {
		m, err := l.conn.Receive()
		if err != nil {
			return err
		}
		l.heard.Store(int64(time.Since(l.made)))
		if m.Type == handoff.TypeSession {
			if err := f.receive(l, m); err != nil {
				// What it has acknowledged is its own: that must be read before the
				// sessions that are on their way are taken for lost.
				f.log.Warn("a session could not be answered for", obs.KeyPeer, "router."+l.id, obs.KeyError, err)
				l.abandon()
			}
			continue
		}
		handoff.CloseFDs(m.FDs) // nothing else carries any
		switch m.Type {
		case handoff.TypeAck:
			var ref handoff.SessionRef
			if err := m.Unmarshal(&ref); err != nil {
				return err
			}
			f.settle(l, ref.Session, acknowledged)
		case handoff.TypeRefuse:
			var ref handoff.SessionRef
			if err := m.Unmarshal(&ref); err != nil {
				return err
			}
			f.log.Info("router refused a session", obs.KeySession, ref.Session, obs.KeyPeer, "router."+l.id, obs.KeyReason, ref.Reason)
			f.settle(l, ref.Session, refused)
		case handoff.TypeEnded:
			var ended handoff.Ended
			if err := m.Unmarshal(&ended); err != nil {
				return err
			}
			f.end(l, ended.Sessions)
		case handoff.TypeCanceled:
			var answer handoff.Canceled
			if err := m.Unmarshal(&answer); err != nil {
				return err
			}
			f.canceled(l, answer)
		case handoff.TypeBegan, handoff.TypeMoved:
			var news handoff.Began // both have the same body
			if err := m.Unmarshal(&news); err != nil {
				return err
			}
			f.note(l, m.Type, news.Sessions)
		case handoff.TypeStopping:
			f.stops(l)
		case handoff.TypeCancel:
			var c handoff.Cancel
			if err := m.Unmarshal(&c); err != nil {
				return err
			}
			f.work.Go(func() {
				f.Cancel(ctx, c.CancelKey, func(found bool) { f.answerCancel(l, c.Request, found) })
			})
		case handoff.TypeLeave:
			var leave handoff.Leave
			if err := m.Unmarshal(&leave); err != nil {
				return err
			}
			f.work.Go(func() { f.Leave(ctx, leave.Sessions) })
		default: // of a newer router: everything that must be understood changes the version
			f.log.Debug("unknown message from the router", obs.KeyPeer, "router."+l.id, obs.KeyReason, string(m.Type))
		}
	}
}

// stops notes that a router takes no more sessions.
func (f *Fleet) stops(l *link) {
	f.state.Lock()
	defer f.state.Unlock()
	l.stopping = true
	f.signalLocked()
}

// Leave asks the routers to end sessions at their next safe points, and ends those that
// are parked, here or at another listener of this host. It returns when the requests are
// on their way. A session that moves at that moment may be missed.
func (f *Fleet) Leave(ctx context.Context, sessions []string) {
	if len(sessions) == 0 {
		return
	}
	f.LeaveParked(sessions)
	f.state.Lock()
	links := make([]*link, 0, len(f.state.links))
	for l := range f.state.links {
		links = append(links, l)
	}
	f.state.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { f.kin.Leave(ctx, sessions) })
	for _, l := range links {
		wg.Go(func() {
			if err := l.conn.Send(handoff.TypeLeave, handoff.Leave{Sessions: sessions}); err != nil {
				l.abandon()
			}
		})
	}
	wg.Wait()
}

// LeaveParked ends those of the sessions that are parked here.
func (f *Fleet) LeaveParked(sessions []string) {
	f.state.Lock()
	defer f.state.Unlock()
	for _, id := range sessions {
		if p := f.state.parked[id]; p != nil {
			p.stop(errLeave)
		}
	}
}
