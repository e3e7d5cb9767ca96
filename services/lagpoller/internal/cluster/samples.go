package cluster

import (
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// maxSamples bounds the memory for a replica that stands still for days. One
// sample a second fills it in over an hour; then the older half is thinned,
// which only makes a replica look staler than it is.
const maxSamples = 4096

// samples are positions of one primary's insert pointer over time, both growing.
type samples struct {
	incarnation lsn.Incarnation
	list        []sample
}

type sample struct {
	lsn lsn.LSN
	at  time.Time
}

// add takes a sample of the primary. One of another incarnation drops all before it.
func (s *samples) add(i lsn.Incarnation, l lsn.LSN, at time.Time) {
	if i != s.incarnation {
		s.incarnation, s.list = i, s.list[:0]
	}
	if n := len(s.list); n > 0 {
		last := &s.list[n-1]
		if l < last.lsn || at.Before(last.at) {
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
func (s *samples) thin() {
	kept := s.list[:0]
	for i, x := range s.list {
		if i >= maxSamples/2 || i%2 == 0 {
			kept = append(kept, x)
		}
	}
	s.list = kept
}

// behind gives how many bytes and how long a replica that has replayed up to p,
// as seen at now, is behind the primary. ok is false when that cannot be said:
// another timeline or system. known is false for the time alone: the replica is
// behind the oldest sample.
func (s *samples) behind(i lsn.Incarnation, p lsn.LSN, now time.Time) (bytes int64, age time.Duration, known, ok bool) {
	if len(s.list) == 0 || i.SystemID != s.incarnation.SystemID || i.Timeline != s.incarnation.Timeline {
		return 0, 0, false, false
	}
	newest := s.list[len(s.list)-1].lsn
	if p < newest {
		bytes = int64(newest - p)
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
		return bytes, 0, false, true
	}
	return bytes, now.Sub(s.list[n].at), true, true
}
