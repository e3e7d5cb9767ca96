package fence

import (
	"slices"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// Former is what may have been shown by servers that cannot be asked about it any more:
// an earlier run of a replica, a replica that is not configured any longer. Its
// transactions have ended on the primary, and are visible there, or were in progress
// when the primary was next asked what is. Of these, a replica rules out those that it
// has not committed once it has replayed as far as the primary had written when that was
// asked. The zero value knows nothing: everything in progress may have been shown.
type Former struct {
	before []uint64
	// at is how far the primary had written when before was in progress.
	at lsn.Position
	// known says that before is all of it, listing that the question has left whose
	// answer will be.
	known, listing bool
}

// Begin adds what may have been shown until now.
func (f *Former) Begin() { f.known, f.listing = false, false }

// Asked notes that the primary is asked from now on for the transactions in progress.
func (f *Former) Asked() { f.listing = !f.known }

// List takes its answer, and how far it had written then. Those that have ended are
// visible on the primary. What a promotion has lost nobody will show any more, so the
// position may be one of the timeline that goes on.
func (f *Former) List(open []uint64, at lsn.Position) {
	if f.listing || at.Timeline != f.at.Timeline {
		f.at = at
	}
	if f.listing {
		f.before, f.known, f.listing = append(f.before[:0], open...), true, false
		return
	}
	f.before = slices.DeleteFunc(f.before, func(x uint64) bool { return !slices.Contains(open, x) })
}

// Unwritten takes from a replica that had replayed so far, before it was asked, which
// transactions it has not committed.
func (f *Former) Unwritten(replayed lsn.Position, unseen func(xid uint64) bool) {
	if f.known && reaches(replayed, f.at) {
		f.before = slices.DeleteFunc(f.before, unseen)
	}
}

// May reports whether a transaction in progress may have been shown.
func (f *Former) May(xid uint64) bool { return !f.known || slices.Contains(f.before, xid) }

// None reports whether none may.
func (f *Former) None() bool { return f.known && len(f.before) == 0 }
