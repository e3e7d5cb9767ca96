package fence

import "github.com/pgpilot/pgpilot/libs/lsn"

// Saw notes, for a session that must never see time go back, that the answer of a
// read has ended. on is the timeline of the replica that gave it, zero for the
// primary. What the read saw has no upper bound but the position of a probe that
// starts from now on: a row is visible on a replica before its replay position has
// passed the row's commit. Later reads on the same run of the same server need no
// bound, because its snapshots only grow. Saw reports that the session has moved
// here from another server: it is worth settling at once, so that it may move on.
func (s *State) Saw(by Server, on lsn.Timeline) (moved bool) {
	moved = s.seen != 0 && by != s.home
	s.clock++
	s.seen, s.home, s.timeline = s.clock, by, on
	return moved
}

// Bound gives the only server that may serve the next read as long as what the
// session has seen there is not covered by Position.
func (s *State) Bound() (to Server, bound bool) { return s.home, s.seen > s.settled }

// Seen reports whether the session has seen something that Position does not cover, and
// on which timeline: that of a replica, 0 for the primary.
func (s *State) Seen() (on lsn.Timeline, unsettled bool) {
	if s.seen <= s.settled {
		return 0, false
	}
	return s.timeline, true
}

// Arrived notes that a read has arrived which must see every write acknowledged to
// anybody before: it waits for a probe that starts from now on. All reads that
// arrive before the same probe share it.
func (s *State) Arrived() { s.clock++; s.arrived = s.clock }

// Ready reports whether a read may run on the given server if that has replayed
// Position: everything the position has to cover is covered.
func (s *State) Ready(on Server) bool {
	return s.written <= s.settled && s.arrived <= s.settled && (s.seen <= s.settled || on == s.home)
}

// shares reports whether what was seen on home is part of what the probed server
// has: the same run, or a replica of the same timeline, which has nothing that its
// primary did not send it.
func (s *State) shares(at lsn.Position, by Server) bool {
	if s.timeline == 0 {
		return by == s.home
	}
	return at.Timeline == s.timeline
}
