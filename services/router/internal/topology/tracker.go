package topology

import (
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/staleness"
	"github.com/pgpilot/pgpilot/services/router/internal/breaker"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// Settings of a Tracker, which may change while it is used.
type Settings struct {
	// StaleAfter is health.stale_after, SlowStart routing.slow_start.
	StaleAfter, SlowStart time.Duration
	Breaker               breaker.Settings
	// Clock names this process's clock of the machine (package staleness).
	Clock string
	// Host tells this run directory from others that share the bus (bus.HostOf).
	Host string
}

// Tracker keeps the table.
type Tracker struct {
	settings Settings
	table    route.Table
	nodes    []node
	primary  primary
	samples  staleness.Samples
}

// node is what the table does not show of a backend.
type node struct {
	// run numbers the incarnations seen of this backend, from 1; 0: none yet.
	run         uint32
	incarnation lsn.Incarnation
	place
	// been is the run that news were about last, of whose cluster and timeline it is known. It
	// stays when a connection sees another run, until there are news of that one.
	been lsn.Incarnation
	// ended are the latest runs before it. Start times do not order runs: a server's
	// clock may be set back.
	ended []ended
	// asked is when the run was last seen, by a lagpoller or at first hand, by which clock.
	asked    int64
	clock    string
	geometry lsn.Geometry
	heard    time.Time
	// words has what each lagpoller said last.
	words   map[string]word
	breaker breaker.Breaker
	// weight is its configured share of the reads; back is when it came back after it
	// was away.
	weight float32
	away   bool
	back   time.Time
	// leaving says that it is not configured any more, free that its place may be
	// taken by another backend.
	leaving, free bool
}

// New makes a tracker of backends by name, the configured primary first. Until
// the lagpoller speaks, that one is taken for the primary and nothing is known
// of the others.
func New(names []string, s Settings) *Tracker {
	t := &Tracker{settings: s, primary: primary{views: map[string]view{}}}
	for _, n := range names {
		t.add(n)
	}
	t.table.Costs = route.NewCosts(len(names))
	t.table.Backends[0].Role = route.RolePrimary
	return t
}

// Add makes room for one more backend, of which nothing is known yet, and gives its
// index. ok is false if there are as many as there can be.
func (t *Tracker) Add(name string, now time.Time) (i int, ok bool) {
	i = slices.IndexFunc(t.nodes, func(n node) bool { return n.free })
	switch {
	case i >= 0:
		run := t.nodes[i].run // goes on: what is left of the one before must not be taken for its
		t.nodes[i] = node{run: run, geometry: lsn.DefaultGeometry, weight: 1, words: map[string]word{}}
		t.table.Backends[i] = route.Backend{Name: name, Share: 1, Run: run}
		t.table.Costs.Forget(i)
	case len(t.nodes) == route.MaxBackends:
		return 0, false
	default:
		i = t.add(name)
		t.table.Costs = route.NewCosts(len(t.nodes))
	}
	t.nodes[i].away = true // it begins slowly
	t.warm(i, now)
	return i, true
}

func (t *Tracker) add(name string) int {
	t.table.Backends = append(t.table.Backends, route.Backend{Name: name, Share: 1})
	t.nodes = append(t.nodes, node{geometry: lsn.DefaultGeometry, weight: 1, words: map[string]word{}})
	return len(t.nodes) - 1
}

// Leave takes a backend out of use: nothing more is sent there. Its index stays
// taken until Release.
func (t *Tracker) Leave(i int) {
	t.nodes[i].leaving = true
	b := &t.table.Backends[i]
	b.Role, b.Healthy, b.Fresh = route.RoleUnknown, false, false
	if t.table.Primary == i {
		t.table.Primary = route.None
	}
}

// Leaving reports whether the backend has been taken out of use.
func (t *Tracker) Leaving(i int) bool { return t.nodes[i].leaving }

// Release gives up the index of a backend that has left and that nobody uses any
// more.
func (t *Tracker) Release(i int) {
	t.nodes[i].free = true
	t.nodes[i].incarnation, t.nodes[i].ended = lsn.Incarnation{}, nil
	t.table.Backends[i].Name = ""
}

// Free reports whether the index has been given up and not been taken again.
func (t *Tracker) Free(i int) bool { return t.nodes[i].free }

// Table gives the table. Its owner may count in-flight statements in it.
func (t *Tracker) Table() *route.Table { return &t.table }

// Set changes the settings.
func (t *Tracker) Set(s Settings) { t.settings = s }

// SetWeight changes a backend's share of the reads; one below 1 is 1.
func (t *Tracker) SetWeight(i, weight int) { t.nodes[i].weight = float32(max(1, weight)) }

// Run numbers the backend's current run; 0 while none is known.
func (t *Tracker) Run(i int) uint32 { return t.nodes[i].run }

// Incarnation gives the backend's current run, as far as it is known.
func (t *Tracker) Incarnation(i int) lsn.Incarnation { return t.nodes[i].incarnation }

// Geometry gives the layout of the backend's WAL.
func (t *Tracker) Geometry(i int) lsn.Geometry { return t.nodes[i].geometry }

// Index gives the place in the table of a backend in use, -1 for one that is not
// there.
func (t *Tracker) Index(name string) int {
	for i := range t.nodes {
		if !t.nodes[i].leaving && t.table.Backends[i].Name == name {
			return i
		}
	}
	return -1
}
