package lsn

// Timeline is a PostgreSQL timeline id; zero means unknown. It grows with every
// promotion.
type Timeline uint32

// Position is a place in the WAL of one timeline.
type Position struct {
	Timeline Timeline `json:"timeline"`
	LSN      LSN      `json:"lsn"`
}

// IsZero reports whether the position is the empty one: nothing to wait for.
func (p Position) IsZero() bool { return p.LSN == 0 }

// Covers reports whether a server that has replayed up to p has provably
// replayed everything up to want. Positions of different timelines are never
// comparable here: without the timelines' history, "later" proves nothing.
func (p Position) Covers(want Position) bool {
	return want.IsZero() || (p.Timeline == want.Timeline && p.Timeline != 0 && p.LSN >= want.LSN)
}

// Max gives the later of two positions. On different timelines the one on the
// newer timeline wins: a session that saw a promotion waits on the new history.
func Max(a, b Position) Position {
	switch {
	case a.IsZero():
		return b
	case b.IsZero():
		return a
	case a.Timeline != b.Timeline:
		if a.Timeline > b.Timeline {
			return a
		}
		return b
	case a.LSN >= b.LSN:
		return a
	}
	return b
}
