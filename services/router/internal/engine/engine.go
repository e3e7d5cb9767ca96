package engine

import (
	"context"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/staleness"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/router/internal/cache"
	"github.com/pgpilot/pgpilot/services/router/internal/intake"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/topology"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// readSize is the size of the loop's one read buffer, and so the most that one
// wake-up does for one connection, in bytes.
const readSize = 64 << 10

// Options of an Engine.
type Options struct {
	Config *config.Config
	Log    *slog.Logger
	// Secret keys the templates of statements (package sqltoken).
	Secret sqltoken.Secret
	// Judge asks a classifier: it returns at once and calls deliver from another
	// goroutine.
	Judge func(req verdict.Request, deliver func(verdict.Verdict, error))
	// Follow, if set, has classifiers follow a database whose verdicts are kept, so that
	// they say when these hold no more. It returns at once.
	Follow func(database string)
	// Want publishes a position that sessions wait for. It must not block.
	Want func(lsn.Position)
	// Ended reports that a session is no more, Began that it is here, which from has
	// brought, and Moved that it has left by way of to, nil if that is not known. They must
	// not block.
	Ended func(session string)
	Began func(session string, from *intake.Link)
	Moved func(session string, to *intake.Link)
	// Stopping announces that no more sessions are taken.
	Stopping func()
	// Way gives the link to a listener that takes sessions, nil for none. It must not
	// block.
	Way     func() *intake.Link
	Metrics *Metrics
	// Host tells the run directory from others that share the bus (bus.HostOf).
	Host string
}

// Engine is the loop and all it owns.
type Engine struct {
	log     *slog.Logger
	opts    Options
	cfg     *config.Config
	metrics *Metrics

	poller *poll.Poller
	inbox  *poll.Inbox
	timers poll.Timers
	slots  slotTable
	now    time.Time
	buf    [readSize]byte
	calls  calls

	settings session.Settings
	defaults defaults
	policy   route.Policy
	began    time.Time
	turn     uint32
	users    map[string]string // passwords by user
	monitor  upstream.Credentials
	// targets are the configured servers, by name.
	targets map[string]dial.Server

	tracker *topology.Tracker
	// servers are by the tracker's indexes.
	servers []*serverSite
	breaker poll.Timer
	// lastPrimary is the latest server that was known to be the primary.
	lastPrimary int
	pools       map[poolKey]*site
	// parting are the connections that their servers have not closed yet.
	parting map[*parting]struct{}
	routers shareOfRouters
	probe   probe
	barrier barrier
	// clock is the machine's, by which it is known how old what replicas show is.
	clock staleness.Clock
	// parsings numbers what servers are told to parse.
	parsings session.Parsings

	cache   *cache.Cache
	scanner *sqltoken.Scanner
	// abroad are the servers that news were about which have another address here, by name.
	abroad map[string]*abroad
	// passed is the server that lagpollers take for the primary and that is not followed.
	passed string
	// greetings are the parameters servers report, by login.
	greetings map[upstream.Login][]handoff.Parameter
	// differences are those from the primary that have been complained of.
	differences map[difference]struct{}
	// beginnings are what the primary's connections begin with, by login.
	beginnings map[upstream.Login]beginning
	// stored is what the primary has stored for roles and databases. reviewing says that it
	// is being asked, again that it is to be asked once more.
	stored           map[upstream.Account]stored
	reviewing, again bool
	// heard is what the primary's news identify as stored; empty if it is to be asked for all
	// the same.
	heard string

	arriving map[string]*arrival
	// departing have been offered to a listener, awaited been taken, and have not arrived yet;
	// hurrying of both have clients that wait; leavers could be offered.
	departing map[string]*departure
	awaited   map[string]*departure
	hurrying  int
	leavers   []*client
	orphan    poll.Timer
	// lastWay is when there was a listener last for the sessions of a router that stops.
	lastWay time.Time
	// shed is how many sessions are still to be given away for want of work, at shedding, and
	// not after shedUntil.
	shed      int
	shedding  poll.Timer
	shedUntil time.Time
	clients   map[string]*client
	byPID     map[uint32]*client
	ready     []grant
	stranded  []*client
	behind    []*client
	spare     [][]byte

	// complained is when it was last said that statements are taken for writes.
	complained time.Time

	stopping bool
	// overdue says that the time for sessions to leave is over.
	overdue bool
	done    bool
	tick    poll.Timer
	drain   poll.Timer

	// work are the goroutines that the loop has started; they end with workCtx.
	work     sync.WaitGroup
	workCtx  context.Context
	stopWork context.CancelFunc
}

// New prepares an engine. Run starts it.
func New(o Options) (*Engine, error) {
	e := &Engine{
		log: o.Log, opts: o, cfg: o.Config, metrics: o.Metrics,
		users:       map[string]string{},
		pools:       map[poolKey]*site{},
		parting:     map[*parting]struct{}{},
		greetings:   map[upstream.Login][]handoff.Parameter{},
		abroad:      map[string]*abroad{},
		differences: map[difference]struct{}{},
		beginnings:  map[upstream.Login]beginning{},
		stored:      map[upstream.Account]stored{},
		arriving:    map[string]*arrival{},
		departing:   map[string]*departure{},
		awaited:     map[string]*departure{},
		clients:     map[string]*client{},
		byPID:       map[uint32]*client{},
		cache:       cache.New(o.Config.Classify.CacheSize),
		scanner:     sqltoken.NewScanner(o.Secret),
		routers:     shareOfRouters{count: 1},
		began:       time.Now(),
		now:         time.Now(),
	}
	clock, err := staleness.OpenClock()
	if err != nil {
		return nil, err
	}
	e.clock = clock
	e.tracker = topology.New([]string{o.Config.Primary.Name}, e.trackerSettings(o.Config))
	if err = e.apply(o.Config); err != nil {
		return nil, err
	}
	if e.poller, err = poll.New(); err != nil {
		return nil, err
	}
	if e.inbox, err = poll.NewInbox(); err != nil {
		e.poller.Close()
		return nil, err
	}
	e.workCtx, e.stopWork = context.WithCancel(context.Background())
	e.probe.e = e
	e.barrier.e, e.barrier.lines = e, map[int]*line{}
	return e, nil
}

// connectTimeout bounds one attempt to connect to a server.
const connectTimeout = 5 * time.Second

// Post runs f on the loop, from any goroutine. It reports false when the loop
// has ended.
func (e *Engine) Post(f func()) bool { return e.inbox.Post(f) }

// timeSlice is how long the loop keeps its processor of the Go runtime's before it offers it to
// other goroutines. From one that keeps it for 10 ms the runtime's monitor thread takes it
// away, and then looks for more to take every 20 µs for a while, which costs the more the
// busier the machine is. For the same reason the loop is bound to no thread: to offer the
// processor would be to wake another thread and to wait until that wakes this one.
const timeSlice = 5 * time.Millisecond

// Run runs the loop until Stop has been called and every session has ended. It
// closes all descriptors and waits for the goroutines it started.
func (e *Engine) Run() error {
	defer e.close()
	tok := e.slots.add(inboxReader{e})
	if err := e.poller.Add(e.inbox.FD(), tok, poll.In); err != nil {
		return err
	}
	e.now = time.Now()
	e.everySecond()
	rested := e.now
	for !e.done {
		if e.now.Sub(rested) >= timeSlice {
			rested = e.now
			runtime.Gosched()
		}
		events, err := e.poller.Wait(e.timers.Next(e.now))
		if err != nil {
			return err
		}
		e.calls.waits++
		e.now = time.Now()
		// Idle connections first: one whose server has closed it must not be lent to a
		// client whose statement arrived in the same batch.
		for _, ev := range events {
			if s, ok := e.slots.get(ev.Token).(*server); ok && s.owner == nil {
				s.event(ev)
			}
		}
		e.runReady()
		for _, ev := range events {
			switch h := e.slots.get(ev.Token).(type) {
			case nil:
			case *server:
				if h.owner != nil {
					h.event(ev)
					e.runReady()
				}
			default:
				h.event(ev)
				e.runReady()
			}
		}
		e.timers.Run(e.now)
		e.runReady()
	}
	return nil
}

// close ends everything the loop owns, in reverse order of its making.
func (e *Engine) close() {
	e.stopWork()
	e.work.Wait()
	_ = e.inbox.Close() // runs what the goroutines posted last
	for _, a := range e.arriving {
		handoff.CloseFDs(a.fds) // never acknowledged
		a.answer(false)
	}
	for _, d := range e.departing {
		d.abandon()
	}
	for _, c := range e.clients {
		c.destroy()
	}
	for _, p := range e.pools {
		for _, s := range p.all() {
			s.hangup()
		}
	}
	for p := range e.parting {
		p.hangup()
	}
	e.probe.hangup()
	e.barrier.close()
	for _, s := range e.servers {
		s.replay.hangup()
		s.connector.Close()
	}
	_ = e.poller.Close()
}

// everySecond does what needs no haste.
func (e *Engine) everySecond() {
	e.tracker.Expire(e.now)
	e.tendPools()
	e.watchSilent()
	e.settleServers()
	e.metrics.gauges(e)
	if len(e.stranded) > 0 {
		e.probe.look()
	}
	e.retryStranded()
	e.lookAgain()
	e.probe.start()
	e.barrier.start()
	for _, s := range e.servers {
		s.replay.rest(e.cfg.Pool.IdleTimeout.D())
	}
	e.timers.Set(&e.tick, e.now.Add(time.Second), e.everySecond)
}

// inboxReader makes the inbox a readiness handler.
type inboxReader struct{ e *Engine }

func (r inboxReader) event(poll.Event) { r.e.inbox.Run() }

// keep gives a copy of b from the loop's spare buffers.
func (e *Engine) keep(b []byte) []byte {
	if n := len(e.spare); n > 0 {
		buf := e.spare[n-1]
		e.spare = e.spare[:n-1]
		return append(buf[:0], b...)
	}
	return append(make([]byte, 0, max(len(b), 4096)), b...)
}

// drop takes a buffer back. Large ones are left to the garbage collector.
func (e *Engine) drop(b []byte) {
	if cap(b) <= readSize && len(e.spare) < maxSpare {
		e.spare = append(e.spare, b)
	}
}

// maxSpare bounds the spare buffers kept.
const maxSpare = 256

func major(version string) int {
	for i, c := range version {
		if c < '0' || c > '9' {
			version = version[:i]
			break
		}
	}
	n, err := strconv.Atoi(version)
	if err != nil {
		return 0
	}
	return n
}
