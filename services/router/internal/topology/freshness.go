package topology

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/staleness"
)

// sample takes the primary's insert position at the moment at which it was asked for:
// what was acknowledged before lies before it. One that was taken on another machine,
// whose clock says nothing here, is of no use.
func (t *Tracker) sample(i int, m *bus.Lag) {
	if i != t.table.Primary || !m.Healthy || m.Error != "" || m.InsertLSN == 0 || m.AskedBoot <= 0 || m.Clock == "" || m.Clock != t.settings.Clock {
		return
	}
	t.samples.Add(m.Incarnation, m.InsertLSN, time.Duration(m.AskedBoot)*time.Microsecond)
	for i := range t.table.Backends {
		t.freshen(i)
	}
}

// freshen finds out as of when a replica is.
func (t *Tracker) freshen(i int) {
	b := &t.table.Backends[i]
	if b.Replayed.IsZero() {
		return
	}
	run := t.nodes[i].incarnation
	run.Timeline = b.Replayed.Timeline
	if at, known := t.samples.AsOf(run, b.Replayed.LSN); known && at > b.AsOf {
		b.AsOf = at
	}
}

// unsample forgets the samples of a primary that is one no more: what has been
// acknowledged elsewhere since is not in them.
func (t *Tracker) unsample() {
	t.samples = staleness.Samples{}
	for i := range t.table.Backends {
		t.table.Backends[i].AsOf = 0
	}
}
