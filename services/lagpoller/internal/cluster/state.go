package cluster

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/staleness"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/probe"
)

// unknown is lag that cannot be told.
const unknown = -1

// State is the knowledge of one lagpoller.
type State struct {
	publisher string
	// order is the configuration's.
	order   []string
	members map[string]*member
	samples staleness.Samples
	started time.Time
	// firstSeq is what Seq and Generation start from. It grows from one start of
	// the lagpoller to the next, since subscribers drop what is not newer.
	firstSeq   uint64
	generation uint64
	// topology is the last that was decided, with every backend of then asked.
	topology bus.Topology
}

type member struct {
	lag    bus.Lag
	points []lsn.Position
	// asked says that it has been asked at least once, with whatever success.
	asked bool
	// before is the run that was last seen of the server which had this one's address or its
	// name: until this one answers, it is not known to have gone back.
	before lsn.Incarnation
	// diverged says, as of the last review, that this is a replica of a history that
	// the primary does not share, of another cluster's for one.
	diverged bool
}

// New gives a state without backends. started is the wall-clock time.
func New(publisher string, started time.Time) *State {
	first := uint64(started.UnixMicro())
	return &State{publisher: publisher, started: started, members: make(map[string]*member), firstSeq: first, generation: first}
}

// Configure sets which backends there are. What is known of those that stay at
// their address is kept. It reports whether the topology changed: while there are
// any that have not been asked yet, the last one stands.
func (s *State) Configure(backends []config.Backend, now time.Time) bool {
	old := s.members
	s.members, s.order = make(map[string]*member, len(backends)), s.order[:0]
	for _, b := range backends {
		s.order = append(s.order, b.Name)
		if m := old[b.Name]; m != nil && m.lag.Address == b.Address {
			s.members[b.Name] = m
			continue
		}
		s.members[b.Name] = &member{before: formerly(old, b), lag: bus.Lag{
			V: bus.Version, Backend: b.Name, Address: b.Address, Role: bus.Unknown, Error: "not asked yet",
			LagBytes: unknown, LagMillis: unknown, Seq: s.firstSeq, Publisher: s.publisher,
		}}
	}
	return s.review(now)
}

// formerly gives the last run of the backend that was at b's address, or else had its name.
func formerly(old map[string]*member, b config.Backend) lsn.Incarnation {
	for _, m := range old {
		if m.lag.Address == b.Address {
			return m.last()
		}
	}
	if m := old[b.Name]; m != nil {
		return m.last()
	}
	return lsn.Incarnation{}
}

// last is the run that was seen last.
func (m *member) last() lsn.Incarnation {
	if m.lag.Incarnation.IsZero() {
		return m.before
	}
	return m.lag.Incarnation
}

// Observed takes what a backend said. points are the switch points of its timeline,
// where they are known. It gives the message to publish, and whether the topology
// changed. A backend that is not configured (any more) gives ok false.
func (s *State) Observed(backend string, o probe.Observation, points []lsn.Position) (lag bus.Lag, changed, ok bool) {
	m := s.members[backend]
	if m == nil {
		return bus.Lag{}, false, false
	}
	l := &m.lag
	l.Role, l.Healthy, l.Error = o.Role, true, ""
	l.Incarnation, l.Geometry, l.ServerVersion = o.Incarnation, o.Geometry, o.ServerVersion
	l.ReplayLSN, l.ReceiveLSN, l.InsertLSN, l.FlushLSN = o.Replay, o.Receive, o.Insert, o.Flush
	l.Receiving, l.Settings = o.Receiving, o.Settings
	l.At = o.Asked.UTC()
	l.Clock, l.AskedBoot = o.Clock, o.AskedBoot.Microseconds()
	m.points, m.asked = points, true
	changed = s.review(o.Answered)
	s.measure(backend, m, o)
	l.Seq++
	return *l, changed, true
}

// measure fills in the lag, and takes the sample if this is the primary.
func (s *State) measure(backend string, m *member, o probe.Observation) {
	l := &m.lag
	if o.Role == bus.Primary {
		l.LagBytes, l.LagMillis = 0, 0
		if m == s.known() {
			s.samples.Add(o.Incarnation, o.Insert, o.Asked.Sub(s.started))
		}
		return
	}
	l.LagBytes, l.LagMillis = unknown, unknown
	if bytes, ok := s.samples.Behind(o.Incarnation, o.Replay); ok {
		l.LagBytes = bytes
	}
	if at, known := s.samples.AsOf(o.Incarnation, o.Replay); known {
		l.LagMillis = float64((o.Answered.Sub(s.started) - at).Microseconds()) / 1000
	}
}

// Failed takes a failed poll. An ill backend is one that has failed often enough;
// one that was never observed is not healthy either way.
func (s *State) Failed(backend string, err error, ill bool, now time.Time) (lag bus.Lag, changed, ok bool) {
	m := s.members[backend]
	if m == nil {
		return bus.Lag{}, false, false
	}
	m.lag.Error = err.Error()
	m.lag.Healthy = m.lag.Healthy && !ill
	m.asked = true
	changed = s.review(now)
	m.lag.Seq++
	return m.lag, changed, true
}

// Snapshot gives the last message of every backend.
func (s *State) Snapshot() bus.LagSnapshot {
	out := bus.LagSnapshot{V: bus.Version, Backends: make([]bus.Lag, 0, len(s.order))}
	for _, name := range s.order {
		out.Backends = append(out.Backends, s.members[name].lag)
	}
	return out
}

// Topology gives the topology as of the last change, dated now. decided is false until
// every backend has been asked once: who is the primary cannot be told before.
func (s *State) Topology(now time.Time) (t bus.Topology, decided bool) {
	t = s.topology
	t.At = now.UTC()
	return t, t.Members != nil
}
