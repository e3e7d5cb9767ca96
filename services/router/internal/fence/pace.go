package fence

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// Pace says when a replica is to be asked how far it has replayed: while a position is
// wanted that it has not reached, and seldom while it stands still. The zero value wants
// nothing.
type Pace struct {
	wanted lsn.Position
	until  time.Time
	asked  time.Time
	// at is how far the replica was when it last moved, which was seen at since.
	at    lsn.Position
	since time.Time
}

// wantedFor is how long at least a position is wanted after somebody has last said so:
// who has read once is likely to read again.
const wantedFor = time.Second

// A replica that has not moved for patience is asked less often: its replay is paused
// or held back. The pause is then a fraction of the time it has stood still, at most
// slowest.
const (
	patience = 100 * time.Millisecond
	fraction = 20
	slowest  = 20 * time.Millisecond
)

// Want notes that a read wants the position at now and may wait so long for it.
func (p *Pace) Want(at lsn.Position, now time.Time, wait time.Duration) {
	if now.After(p.until) {
		p.wanted, p.since = lsn.Position{}, now
	}
	p.wanted = lsn.Max(p.wanted, at)
	p.until = now.Add(max(wantedFor, wait))
}

// Asked notes that the replica is asked at now.
func (p *Pace) Asked(now time.Time) { p.asked = now }

// Next gives when a replica that has replayed so far is to be asked, no sooner than
// least after the last time. It is not to be asked at all if it has reached what is
// wanted, or has left its timeline.
func (p *Pace) Next(replayed lsn.Position, least time.Duration, now time.Time) (due time.Time, wanted bool) {
	if p.wanted.IsZero() || now.After(p.until) || replayed.Covers(p.wanted) || replayed.Timeline > p.wanted.Timeline {
		return time.Time{}, false
	}
	if replayed != p.at {
		p.at, p.since = replayed, now
	}
	pause := least
	if still := now.Sub(p.since); still >= patience {
		pause = max(least, min(still/fraction, slowest))
	}
	return p.asked.Add(pause), true
}
