package staleness

import (
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// maxSamples bounds the memory for a replica that stands still for days. One
// sample a second fills it in over an hour; then the older half is thinned,
// which only makes a replica look staler than it is.
const maxSamples = 4096

// Samples are positions of one primary's insert pointer over time, both growing. The
// zero value has none. They are for one goroutine at a time.
type Samples struct {
	incarnation lsn.Incarnation
	list        []sample
}

type sample struct {
	lsn lsn.LSN
	at  time.Duration
}

// Add takes a sample of the primary: its insert position, and the moment at which it
// was asked for, by any clock that is the same for all calls. One of another
// incarnation drops all before it.
func (s *Samples) Add(i lsn.Incarnation, l lsn.LSN, at time.Duration) {
	if i != s.incarnation {
		s.incarnation, s.list = i, s.list[:0]
	}
	if n := len(s.list); n > 0 {
		last := &s.list[n-1]
		if l < last.lsn || at < last.at {
			return // positions grow within an incarnation; a sample that does not is of no use
		}
		if l == last.lsn { // idle: whoever has replayed this is as fresh as the newer sample
			last.at = at
			return
		}
	}
	if len(s.list) == maxSamples {
		s.thin()
	}
	s.list = append(s.list, sample{lsn: l, at: at})
}

// thin drops every other sample of the older half.
func (s *Samples) thin() {
	kept := s.list[:0]
	for i, x := range s.list {
		if i >= maxSamples/2 || i%2 == 0 {
			kept = append(kept, x)
		}
	}
	s.list = kept
}

// Behind gives how many bytes a replica that has replayed up to p is behind the
// newest sample. ok is false when that cannot be said: another timeline or system.
func (s *Samples) Behind(i lsn.Incarnation, p lsn.LSN) (bytes int64, ok bool) {
	if !s.about(i) {
		return 0, false
	}
	if newest := s.list[len(s.list)-1].lsn; p < newest {
		bytes = int64(newest - p)
	}
	return bytes, true
}

// AsOf gives the moment of the newest sample that a replica which has replayed up to
// p contains: it shows everything that was acknowledged before. known is false for
// another timeline or system, and if the replica is behind the oldest sample.
func (s *Samples) AsOf(i lsn.Incarnation, p lsn.LSN) (at time.Duration, known bool) {
	if !s.about(i) {
		return 0, false
	}
	n, exact := slices.BinarySearchFunc(s.list, p, func(x sample, p lsn.LSN) int {
		switch {
		case x.lsn < p:
			return -1
		case x.lsn > p:
			return 1
		}
		return 0
	})
	if !exact {
		n--
	}
	if n < 0 {
		return 0, false
	}
	return s.list[n].at, true
}

func (s *Samples) about(i lsn.Incarnation) bool {
	return len(s.list) > 0 && i.SystemID == s.incarnation.SystemID && i.Timeline == s.incarnation.Timeline
}
