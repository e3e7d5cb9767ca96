package catalog

import (
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

// Lead is which server the lagpollers call the primary. Each has its own view: one that is
// cut off from a part of the network may go on naming a former primary. It is safe for
// concurrent use.
type Lead struct {
	mu    sync.Mutex
	state leadState // guarded by mu
}

type leadState struct {
	staleAfter time.Duration
	// primary is the one that is believed, on a timeline of a cluster.
	primary  string
	timeline lsn.Timeline
	system   uint64
	// named is when a lagpoller named it last.
	named time.Time
}

// NewLead gives one that knows no primary yet. staleAfter is health.stale_after.
func NewLead(staleAfter time.Duration) *Lead {
	return &Lead{state: leadState{staleAfter: staleAfter}}
}

// Settle changes how long a primary is believed that nobody names any more.
func (l *Lead) Settle(staleAfter time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.staleAfter = staleAfter
}

// Heard takes what a lagpoller says, and gives the primary that is to be believed, empty
// while none is known. A promotion begins a new timeline, so who names a server on an older
// one has not seen it yet, and is not believed. Nor is who names another on the same
// timeline, as when a server was copied. Either is when nobody has named the first for
// health.stale_after: routers write there by then.
func (l *Lead) Heard(t *bus.Topology, now time.Time) (primary string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.state
	if t.Primary == "" { // whoever was is asked until it is known who is
		return s.primary
	}
	var timeline lsn.Timeline
	var system uint64
	for _, m := range t.Members {
		if m.Backend == t.Primary {
			timeline, system = m.Incarnation.Timeline, m.Incarnation.SystemID
		}
	}
	other := system != s.system && system != 0 && s.system != 0
	switch {
	case s.primary == "":
	case !other && timeline > s.timeline:
	case t.Primary != s.primary && now.Sub(s.named) <= s.staleAfter:
		return s.primary
	case t.Primary == s.primary && !other && timeline < s.timeline: // seen before it moved
		s.named = now
		return s.primary
	}
	s.primary, s.timeline, s.system, s.named = t.Primary, timeline, system, now
	return s.primary
}
