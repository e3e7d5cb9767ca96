package fence

import "github.com/pgpilot/pgpilot/libs/lsn"

// A standby shows a commit when it replays it. The backend that commits may still be
// waiting then, for a synchronous standby or for microseconds, and the primary does
// not show the row yet. Whoever has seen it, or may have been told of it, may use the
// primary only behind a barrier: until it shows all that any replica has shown.
//
// What a replica has shown has its commit record behind it, so on the primary its
// transaction has either ended, and is visible, or is one of those in progress. Open
// lists these. Those that are not in it any more have ended; those that a replica has
// not committed yet, it has shown to nobody.
//
// A replica can also speak for all others: one that has replayed as far as the primary
// had written at a moment after Begin, and has not committed a transaction, shows that
// there was no commit record then which any replica could have replayed. That is how
// what is prepared and pending, or runs for long, is told from what commits where a
// replica cannot be asked.

// Set is a set of backends.
type Set uint64

// With gives the set and backend i.
func (s Set) With(i int) Set { return s | 1<<uint(i) }

// Has reports whether i is in the set.
func (s Set) Has(i int) bool { return s&(1<<uint(i)) != 0 }

// Crossing is one use of the primary that waits for the barrier, from Begin on.
type Crossing struct {
	// from are the replicas that may have shown what has to be visible.
	from  Set
	asked bool
	// at is how far the primary had written then.
	at     lsn.Position
	doubts []doubt
}

// doubt is a transaction in progress that may have been seen.
type doubt struct {
	xid uint64
	// unseen are the replicas that have shown it to nobody.
	unseen Set
}

// Begin makes it wait for what the replicas have shown until now.
func (c *Crossing) Begin(from Set) { *c = Crossing{from: from, doubts: c.doubts[:0]} }

// From gives the replicas.
func (c *Crossing) From() Set { return c.from }

// Open takes the transactions in progress on the primary, at a moment after Begin, and
// how far it had written then.
func (c *Crossing) Open(xids []uint64, at lsn.Position) {
	if !c.asked || at.Timeline != c.at.Timeline {
		c.at = at
	}
	if !c.asked {
		c.asked = true
		for _, x := range xids {
			c.doubts = append(c.doubts, doubt{xid: x})
		}
		return
	}
	c.keep(func(d *doubt) bool {
		for _, x := range xids {
			if d.xid == x {
				return true
			}
		}
		return false
	})
}

// Unseen takes from one of the replicas, at a moment after Begin and of the same run as
// anything it may have shown, which transactions it has not committed.
func (c *Crossing) Unseen(on int, unseen func(xid uint64) bool) {
	c.keep(func(d *doubt) bool {
		if !unseen(d.xid) {
			return true
		}
		d.unseen = d.unseen.With(on)
		return d.unseen&c.from != c.from
	})
}

// Unwritten takes from a replica that had replayed so far, before it was asked, which
// transactions it has not committed.
func (c *Crossing) Unwritten(replayed lsn.Position, unseen func(xid uint64) bool) {
	if c.asked && reaches(replayed, c.at) {
		c.keep(func(d *doubt) bool { return !unseen(d.xid) })
	}
}

// reaches reports whether a replica has replayed as far as the primary had written.
func reaches(replayed, written lsn.Position) bool {
	return !written.IsZero() && replayed.Covers(written)
}

// Only leaves those transactions in doubt that may have been seen, where no replica can
// be asked.
func (c *Crossing) Only(may func(xid uint64) bool) {
	c.keep(func(d *doubt) bool { return may(d.xid) })
}

func (c *Crossing) keep(these func(*doubt) bool) {
	kept := c.doubts[:0]
	for i := range c.doubts {
		if d := c.doubts[i]; these(&d) {
			kept = append(kept, d)
		}
	}
	c.doubts = kept
}

// Passed reports whether the primary shows all of it.
func (c *Crossing) Passed() bool { return c.asked && len(c.doubts) == 0 }

// Doubts calls f for each transaction in doubt.
func (c *Crossing) Doubts(f func(xid uint64)) {
	for i := range c.doubts {
		f(c.doubts[i].xid)
	}
}

// Full gives the whole id of a transaction in progress whose lower 32 bits are known.
// near is an id of about the same time (PostgreSQL documentation, "Transactions and
// Identifiers": ids in use are less than 2^31 apart).
func Full(near uint64, xid uint32) uint64 {
	ahead := xid - uint32(near)
	if ahead < 1<<31 {
		return near + uint64(ahead)
	}
	return near - uint64(-ahead)
}
