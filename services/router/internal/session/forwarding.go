package session

// forwarding gathers what goes to the server in one step, so that it leaves in
// as few writes as it can: adjoining messages of the client as they lie, and
// what was built with small ones copied between.
type forwarding struct {
	s *Session
	// all are the client's bytes; all[from:to] is to be sent as it lies.
	all      []byte
	from, to int
	// building says that s.built[start:] is to be sent; there is no run then.
	building bool
	start    int
}

// maxCopied is the longest piece that is copied to save a write, in bytes.
const maxCopied = 4 << 10

// add sends n bytes of all, from the given offset.
func (f *forwarding) add(all []byte, at, n int) {
	switch {
	case n == 0:
	case f.building && n <= maxCopied:
		f.s.built = append(f.s.built, all[at:at+n]...)
	case f.from != f.to && f.to == at:
		f.to += n
	default:
		f.flush()
		f.all, f.from, f.to = all, at, at+n
	}
}

// build sends what fill appends.
func (f *forwarding) build(fill func([]byte) []byte) {
	if !f.building {
		run := f.all[f.from:f.to]
		if len(run) > maxCopied {
			f.flush()
			run = nil
		}
		f.from, f.to = 0, 0
		f.building, f.start = true, len(f.s.built)
		f.s.built = append(f.s.built, run...)
	}
	f.s.built = fill(f.s.built)
}

// flush makes actions of what has been gathered.
func (f *forwarding) flush() {
	switch {
	case f.building:
		f.s.do(Action{Op: OpToServer, Slot: f.s.at, Data: f.s.built[f.start:]})
	case f.from != f.to:
		f.s.do(Action{Op: OpToServer, Slot: f.s.at, Data: f.all[f.from:f.to]})
	}
	f.building, f.from, f.to = false, 0, 0
}
