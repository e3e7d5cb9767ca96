package fence

import (
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// catchups is how many of a replica's latest catch-ups are remembered.
const catchups = 16

// Catchup measures how long one replica takes, from the moment a position is
// wanted to the news that it has replayed it, and says from that whether waiting for
// it is worth while. It measures whether anybody waits or not, so a replica that has
// become quick again is noticed. The zero value knows nothing.
type Catchup struct {
	took [catchups]time.Duration
	next int
	n    int
	// wanted is what is being measured, since since.
	wanted lsn.Position
	since  time.Time
}

// Want notes that a read wants the position at now. One at a time is measured.
func (c *Catchup) Want(at lsn.Position, now time.Time) {
	if c.wanted.IsZero() {
		c.wanted, c.since = at, now
	}
}

// Hear takes the news that the replica has replayed up to at. News from another
// timeline ends the measurement without a result.
func (c *Catchup) Hear(at lsn.Position, now time.Time) {
	switch {
	case c.wanted.IsZero():
	case at.Covers(c.wanted):
		c.took[c.next] = now.Sub(c.since)
		c.next = (c.next + 1) % catchups
		c.n = min(c.n+1, catchups)
		c.wanted = lsn.Position{}
	case at.Timeline != c.wanted.Timeline:
		c.wanted = lsn.Position{}
	}
}

// Restart forgets everything: another run of the replica.
func (c *Catchup) Restart() { *c = Catchup{} }

// Typical gives the median of the latest catch-ups, 0 while none is known.
func (c *Catchup) Typical() time.Duration {
	if c.n == 0 {
		return 0
	}
	sorted := c.took
	slices.Sort(sorted[:c.n])
	return sorted[c.n/2]
}

// Within reports whether at least half of the latest catch-ups took no longer than
// d. A measurement under way for longer than d counts as one that did not. With
// nothing known it says yes: to find out costs one short wait.
func (c *Catchup) Within(d time.Duration, now time.Time) bool {
	n, quick := c.n, 0
	for _, t := range c.took[:c.n] {
		if t <= d {
			quick++
		}
	}
	if !c.wanted.IsZero() && now.Sub(c.since) > d {
		n++
	}
	return 2*quick >= n
}
