package fence

import "github.com/pgpilot/pgpilot/libs/lsn"

// Carry gives what a position of an earlier timeline means on the primary's: itself
// if it lies before the place where that timeline ended, which is history common to
// both, and otherwise that place; then it names a write that the promotion has lost. One of
// an earlier timeline that is missing in the history is of another branch, and lost as a whole.
// ok is false where nobody can tell.
func (h *History) Carry(p lsn.Position) (at lsn.Position, lost, ok bool) {
	if p.IsZero() || p.Timeline == h.Now.Timeline {
		return p, false, true
	}
	for i, end := range h.Ended {
		if end.Timeline == p.Timeline {
			at, lost = h.carry(i, p.LSN)
			return at, lost, true
		}
	}
	if p.Timeline > h.Now.Timeline || len(h.Ended) == 0 || p.Timeline < h.Ended[0].Timeline { // the history may be incomplete at its beginning
		return p, false, false
	}
	parted := lsn.LSN(0)
	for _, end := range h.Ended {
		if end.Timeline < p.Timeline {
			parted = end.LSN
		}
	}
	return lsn.Position{Timeline: h.Now.Timeline, LSN: min(p.LSN, parted)}, true, true
}

// carry follows a position of the timeline at place i through the promotions after
// it. A later switch may lie before this timeline's end: then that one counts.
func (h *History) carry(i int, l lsn.LSN) (at lsn.Position, lost bool) {
	at = lsn.Position{Timeline: h.Now.Timeline, LSN: l}
	for _, later := range h.Ended[i:] {
		if at.LSN > later.LSN {
			at.LSN, lost = later.LSN, true
		}
	}
	return at, lost
}

// Follow carries the fence over to the primary's timeline. It reports true if a
// write that it covered is lost: the fence is then where the histories part.
func (s *State) Follow(h *History) (lost bool) {
	at, lost, ok := h.Carry(s.position)
	if ok {
		s.position = at
	}
	return lost
}
