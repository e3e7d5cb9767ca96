package topology

import (
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// primary is what lagpollers say about who accepts writes. Each has its own view:
// two of them may see different parts of the network.
type primary struct {
	views   map[string]view
	history fence.History
	// passed is who is named and not followed, since another one has been on a later timeline.
	passed string
}

// view is what one lagpoller said last.
type view struct {
	publisher  string
	generation uint64
	heard      time.Time
	// name is the primary, empty if it names none, address where that is.
	name, address string
	// timeline and system are the named primary's; ended is its history.
	timeline lsn.Timeline
	system   uint64
	ended    []lsn.Position
	// claims is how many say they are the primary, claimed the newest timeline of
	// those, newest that of all members.
	claims          int
	claimed, newest lsn.Timeline
}

func viewOf(m *bus.Topology, now time.Time) view {
	v := view{publisher: m.Publisher, generation: m.Generation, heard: now, name: m.Primary, ended: m.SwitchPoints}
	for _, mem := range m.Members {
		if mem.Role == bus.Primary && mem.Healthy {
			v.claims++
			v.claimed = max(v.claimed, mem.Incarnation.Timeline)
		}
		v.newest = max(v.newest, mem.Incarnation.Timeline)
		if mem.Backend == m.Primary {
			v.address, v.timeline, v.system = mem.Address, mem.Incarnation.Timeline, mem.Incarnation.SystemID
		}
	}
	return v
}

// Topology takes a lagpoller's news of who the primary is, and reports whether
// that makes another one the primary. An older message than the last of the same
// lagpoller says nothing; messages of different ones are weighed against each other. What a
// lagpoller has said lapses with health.stale_after, and with it what is older: generations
// begin with the time of day, and one that was started after a clock was set back has lower ones.
func (t *Tracker) Topology(m *bus.Topology, now time.Time) (moved bool) {
	for publisher, v := range t.primary.views {
		if now.Sub(v.heard) > t.settings.StaleAfter {
			delete(t.primary.views, publisher)
		}
	}
	for i := range m.Members {
		t.Find(m.Publisher, m.Members[i].Backend, m.Members[i].Address) // which addresses it has
	}
	if last, ok := t.primary.views[m.Publisher]; !ok || m.Generation >= last.generation {
		t.primary.views[m.Publisher] = viewOf(m, now)
	}
	was := t.table.Primary
	t.decide()
	return t.table.Primary != was
}

// decide makes the primary the one that is named on the newest timeline: a promotion
// begins a new one, so who names another has not seen it yet. Where that leaves a
// doubt, nothing is written: two are named on one timeline, or somebody sees two that
// claim to be the primary, or a member that has gone further than the one that is
// named. If nobody names one and none claims to be, the last one is waited for, and so it is
// if all who name another one may not have seen the promotion that made it the primary.
func (t *Tracker) decide() {
	t.primary.passed = ""
	var best *view
	doubt, claims := false, 0
	for _, v := range t.primary.views {
		switch {
		case v.name == "":
			claims += v.claims
		case t.Find(v.publisher, v.name, v.address) < 0: // of a configuration that has not arrived here yet, or is left
		case best == nil || v.timeline > best.timeline:
			best, doubt = &v, false
		case v.timeline == best.timeline && v.name != best.name:
			doubt = true
		}
	}
	if best == nil {
		if claims > 0 {
			t.table.Primary = route.None
		}
		return
	}
	for _, v := range t.primary.views {
		if v.name == "" && (v.claims > 1 && v.claimed >= best.timeline || v.claims == 1 && v.newest > best.timeline) {
			doubt = true
		}
	}
	if doubt {
		t.table.Primary = route.None
		return
	}
	if h := &t.primary.history; best.timeline < h.Now.Timeline && best.system == h.SystemID && t.surpassed(best) {
		t.primary.passed = best.name
		return
	}
	i := t.Index(best.name)
	if i != t.table.Primary {
		t.table.Primary = i
		t.unsample()
	}
	if best.timeline != 0 {
		t.primary.history = fence.History{SystemID: best.system, Now: lsn.Position{Timeline: best.timeline}, Ended: best.ended}
		n := &t.nodes[i]
		n.been.SystemID, n.been.Timeline = best.system, best.timeline
		for i := range t.table.Backends {
			t.compare(i)
		}
	}
}

// surpassed reports whether a server in use has been on a later timeline of the same cluster
// than the one that is named, as far as is known: it has not been seen since it went back to
// that, as all do that are restored to what was before a promotion.
func (t *Tracker) surpassed(by *view) bool {
	return slices.ContainsFunc(t.nodes, func(n node) bool {
		return !n.leaving && !n.free && n.been.SystemID == by.system && n.been.Timeline > by.timeline
	})
}

// Passed names the server that lagpollers take for the primary and that is not followed, empty
// if there is none: it is a former one, as far as is known here.
func (t *Tracker) Passed() string { return t.primary.passed }

// History gives the primary's timeline and where those before it ended, as the
// lagpollers know it; its position is not known here.
func (t *Tracker) History() *fence.History { return &t.primary.history }
