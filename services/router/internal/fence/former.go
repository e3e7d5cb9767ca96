package fence

import "slices"

// Former is what may have been shown by servers that cannot be asked about it any more:
// an earlier run of a replica, a replica that is not configured any longer. Its
// transactions have ended on the primary, and are visible there, or were in progress
// when the primary was next asked what is. The zero value knows nothing: everything in
// progress may have been shown.
type Former struct {
	before []uint64
	// known says that before is all of it, listing that the question has left whose
	// answer will be.
	known, listing bool
}

// Begin adds what may have been shown until now.
func (f *Former) Begin() { f.known, f.listing = false, false }

// Asked notes that the primary is asked from now on for the transactions in progress.
func (f *Former) Asked() { f.listing = !f.known }

// List takes its answer. Those that have ended are visible on the primary.
func (f *Former) List(open []uint64) {
	if f.listing {
		f.before, f.known, f.listing = append(f.before[:0], open...), true, false
		return
	}
	f.before = slices.DeleteFunc(f.before, func(x uint64) bool { return !slices.Contains(open, x) })
}

// May reports whether a transaction in progress may have been shown.
func (f *Former) May(xid uint64) bool { return !f.known || slices.Contains(f.before, xid) }

// None reports whether none may.
func (f *Former) None() bool { return f.known && len(f.before) == 0 }
