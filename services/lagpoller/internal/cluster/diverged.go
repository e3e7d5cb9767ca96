package cluster

import (
	"fmt"
	"slices"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

// judge makes every replica unhealthy that has left the primary's history, or was never of it: it can
// show rows that the primary never had, and no wait brings it back. The next
// observation of a replica starts from healthy, so one that was repaired is used again.
func (s *State) judge(p *member) {
	for _, m := range s.members {
		m.diverged, m.lag.Diverged = false, false
		if p == nil || m.lag.Role != bus.Replica {
			continue
		}
		replayed := lsn.Position{Timeline: m.lag.Incarnation.Timeline, LSN: m.lag.ReplayLSN}
		why := strangeness(m.lag.Incarnation.SystemID, p.lag.Incarnation.SystemID)
		if why == "" {
			why = divergence(replayed, p.lag.Incarnation.Timeline, p.points)
		}
		if why == "" {
			why = otherPromotion(m.points, p.points)
		}
		if why == "" {
			continue
		}
		m.diverged, m.lag.Diverged, m.lag.Healthy = true, true, false
		if m.lag.Error == "" {
			m.lag.Error = why
		}
	}
}

// strangeness says that a replica is of another database cluster, by the system identifiers;
// empty if it is not.
func strangeness(replica, primary uint64) string {
	if replica == primary {
		return ""
	}
	return fmt.Sprintf("is of another database cluster (its system identifier is %d, the primary's is %d): correct its address, or rebuild it from the primary", replica, primary)
}

// divergence says how a replica that has replayed up to p has left the history of
// the primary's timeline, empty if it has not or nobody can tell. points are where
// the earlier timelines of that history ended, oldest first. A replica on one of these that is not
// past its end is only behind. ("Timelines" in PostgreSQL's chapter "Continuous
// Archiving and Point-in-Time Recovery".)
func divergence(p lsn.Position, primary lsn.Timeline, points []lsn.Position) string {
	if p.Timeline >= primary || len(points) == 0 {
		return ""
	}
	for i, end := range points {
		if end.Timeline != p.Timeline {
			continue
		}
		if p.LSN <= end.LSN {
			return ""
		}
		next := primary
		if i+1 < len(points) {
			next = points[i+1].Timeline
		}
		return fmt.Sprintf("has replayed past the point where timeline %d began (%s; it is at %s): rebuild it from the primary",
			next, end.LSN, p.LSN)
	}
	return fmt.Sprintf("is on timeline %d, which is not of the primary's history: rebuild it from the primary", p.Timeline)
}

// otherPromotion says at which timeline a replica's history parts from the primary's although
// both have it: two servers that were promoted one after the other, without hearing of each
// other, give their timelines one number ("Timelines" in the same chapter). Empty if they do not part, or one of the
// two is not known.
func otherPromotion(replica, primary []lsn.Position) string {
	if len(primary) == 0 {
		return ""
	}
	for _, end := range replica {
		// A server that was promoted without the files of its forerunners' histories does not know these.
		if end.Timeline >= primary[0].Timeline && !slices.Contains(primary, end) {
			return fmt.Sprintf("left timeline %d at %s, which the primary has not done: rebuild it from the primary", end.Timeline, end.LSN)
		}
	}
	return ""
}

// CutOff lists the last messages of the replicas that answer but are not being
// streamed to, in the configuration's order.
func (s *State) CutOff() []bus.Lag {
	var out []bus.Lag
	for _, name := range s.order {
		if l := s.members[name].lag; l.Role == bus.Replica && l.Error == "" && !l.Receiving {
			out = append(out, l)
		}
	}
	return out
}

// Diverged lists the last messages of the replicas that are not of the primary's
// history, in the configuration's order.
func (s *State) Diverged() []bus.Lag {
	var out []bus.Lag
	for _, name := range s.order {
		if m := s.members[name]; m.diverged {
			out = append(out, m.lag)
		}
	}
	return out
}
