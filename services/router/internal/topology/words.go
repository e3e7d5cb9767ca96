package topology

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

// word is what one lagpoller said last of a backend.
type word struct {
	heard             time.Time
	healthy, diverged bool
	of                lsn.Incarnation
	// lag is how old what the backend shows was at most, at the time of known.
	lag   time.Duration
	known time.Time
}

// hear takes the word of m, and forgets those of lagpollers that are silent.
func (n *node) hear(m *bus.Lag, now time.Time, staleAfter time.Duration) {
	w := n.words[m.Publisher]
	w.heard, w.healthy, w.diverged, w.of = now, m.Healthy, m.Diverged, m.Incarnation
	if m.LagMillis >= 0 {
		w.lag, w.known = time.Duration(m.LagMillis*float64(time.Millisecond)), now
	}
	n.words[m.Publisher] = w
	for publisher, w := range n.words {
		if now.Sub(w.heard) > staleAfter {
			delete(n.words, publisher)
		}
	}
}

// healthy reports whether a lagpoller can reach the backend, and none has seen that this
// run of it has left the primary's history: who cannot see the primary would not know.
func (n *node) healthy() bool {
	well := false
	for _, w := range n.words {
		if w.diverged && w.of.SameRun(n.incarnation) {
			return false
		}
		well = well || w.healthy
	}
	return well
}

// lag is how old what the backend shows is at most, by the best word of it: a lagpoller
// that cannot reach the primary knows of no newer one.
func (n *node) lag(now time.Time) (least time.Duration, known bool) {
	for _, w := range n.words {
		if w.known.IsZero() {
			continue
		}
		if lag := w.lag + now.Sub(w.known); !known || lag < least {
			least, known = lag, true
		}
	}
	return least, known
}

// outdated reports whether m tells of another run than the present one only because its
// lagpoller has not seen this one: it could not ask, or asked before that.
func (n *node) outdated(m *bus.Lag) bool {
	if n.incarnation.IsZero() || m.Incarnation.SameRun(n.incarnation) {
		return false
	}
	return m.Error != "" && !m.Diverged || m.Clock != "" && m.Clock == n.clock && m.AskedBoot < n.asked
}
