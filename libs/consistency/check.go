package consistency

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Violation is a broken guarantee.
type Violation struct {
	Guarantee Guarantee
	// Op broke it. For Linearizable it is the first operation of the key's part of the
	// history that no order explains.
	Op Op
	// Why says what Op had to see.
	Why string
}

// String tells it in a line.
func (v Violation) String() string {
	return fmt.Sprintf("%s: session %d, key %d, %s to %s on server %d run %d: %s",
		v.Guarantee, v.Op.Session, v.Op.Key, time.Duration(v.Op.Invoke), time.Duration(v.Op.Return), v.Op.Server, v.Op.Run, v.Why)
}

// Report is the outcome of a Check.
type Report struct {
	// Reads and Writes were judged; of Unknown and Failed operations there were so many.
	Reads, Writes, Unknown, Failed int
	// Violations are in no particular order.
	Violations []Violation
	// Undecided are the keys of which Linearizable could not be decided in time.
	Undecided []int32
}

// Operations is how many were judged.
func (r *Report) Operations() int { return r.Reads + r.Writes }

// Count gives how often a guarantee was broken.
func (r *Report) Count(g Guarantee) int {
	n := 0
	for _, v := range r.Violations {
		if v.Guarantee == g {
			n++
		}
	}
	return n
}

// Check looks for what the promise forbids.
func Check(h *History, p Promise) *Report {
	c := &checker{h: h, p: &p, r: &Report{}}
	c.learn()
	c.sessions()
	if p.Has(Bounded) {
		c.staleness()
	}
	if p.Has(Linearizable) {
		c.order()
	}
	return c.r
}

type checker struct {
	h *History
	p *Promise
	r *Report
	// writes are by value.
	writes map[int64]*write
}

// write is one write, as all of the history shows it.
type write struct {
	op *Op
	// version is what the write was answered, or a read has found.
	version int64
	epoch   int
	inLoss  bool
}

func (c *checker) fault(g Guarantee, op *Op, format string, args ...any) {
	if c.p.Has(g) {
		c.r.Violations = append(c.r.Violations, Violation{g, *op, fmt.Sprintf(format, args...)})
	}
}

// place is one version of one key between two losses.
type place struct {
	epoch   int
	key     int32
	version int64
}

// learn counts, finds out which versions writes have made, and judges every value
// by itself.
func (c *checker) learn() {
	c.writes = make(map[int64]*write, len(c.h.ops)/4)
	for i := range c.h.ops {
		op := &c.h.ops[i]
		switch {
		case op.Kind == Read && op.Outcome == OK:
			c.r.Reads++
		case op.Outcome == OK:
			c.r.Writes++
		case op.Outcome == Failed:
			c.r.Failed++
		default:
			c.r.Unknown++
		}
		if op.Kind == Write {
			e, ok := c.h.epoch(op)
			c.writes[op.Value] = &write{op: op, version: op.Version, epoch: e, inLoss: !ok}
		}
	}
	values := make(map[place]int64, len(c.writes))
	for i := range c.h.ops {
		op := &c.h.ops[i]
		if op.Outcome == OK {
			c.judge(op, values)
		}
	}
}

// judge looks at one value.
func (c *checker) judge(op *Op, values map[place]int64) {
	if op.Kind == Read && op.Value != 0 {
		w := c.writes[op.Value]
		switch {
		case w == nil || w.op.Key != op.Key:
			c.fault(MadeUp, op, "it read %d (version %d), which nobody has written to this key", op.Value, op.Version)
			return
		case w.op.Invoke > op.Return:
			c.fault(MadeUp, op, "it read %d, which was written later, from %s on", op.Value, time.Duration(w.op.Invoke))
			return
		case w.op.Outcome == Failed:
			c.fault(Aborted, op, "it read %d, whose write had failed", op.Value)
			return
		case w.version == 0:
			w.version = op.Version
		}
	}
	e, ok := c.h.epoch(op)
	if !ok || op.Version == 0 {
		return
	}
	at := place{e, op.Key, op.Version}
	if was, ok := values[at]; !ok {
		values[at] = op.Value
	} else if was != op.Value {
		c.fault(Forked, op, "version %d is %d here and %d elsewhere", op.Version, op.Value, was)
	}
}

// floor is the least that a session's next operation on a key may see.
type floor struct {
	epoch       int
	wrote, read int64
	// value is what the session wrote as version wrote.
	value int64
	// on are the highest versions read, by server.
	on []onServer
}

type onServer struct {
	server, run int32
	version     int64
}

// sessions judges the guarantees about one session's operations.
func (c *checker) sessions() {
	type register struct{ session, key int32 }
	floors := map[register]*floor{}
	for i := range c.h.ops {
		op := &c.h.ops[i]
		version := op.Version
		if op.Kind == Write && version == 0 {
			version = c.writes[op.Value].version
		}
		e, ok := c.h.epoch(op)
		if !ok || op.Outcome != OK || op.Kind == Write && version == 0 {
			continue
		}
		at := register{op.Session, op.Key}
		f := floors[at]
		if f == nil || f.epoch != e {
			f = &floor{epoch: e}
			floors[at] = f
		}
		if op.Kind == Write {
			if low := max(f.wrote, f.read); version <= low {
				c.fault(WritesFollowReads, op, "it wrote version %d after the session had seen %d", version, low)
			}
			if version > f.wrote {
				f.wrote, f.value = version, op.Value
			}
			continue
		}
		c.read(op, f)
	}
}

func (c *checker) read(op *Op, f *floor) {
	switch {
	case op.Version < f.wrote:
		c.fault(ReadYourWrites, op, "it read version %d after the session had written %d", op.Version, f.wrote)
	case f.wrote > 0 && c.outlived(op, f):
		c.fault(ReadYourWrites, op, "it read %d (version %d) in place of %d (version %d), which the session had written", op.Value, op.Version, f.value, f.wrote)
	}
	if op.Version < f.read {
		c.fault(MonotonicReads, op, "it read version %d after the session had read %d", op.Version, f.read)
	}
	f.read = max(f.read, op.Version)
	if op.Run == 0 {
		return
	}
	i := slices.IndexFunc(f.on, func(o onServer) bool { return o.server == op.Server })
	switch {
	case i < 0:
		f.on = append(f.on, onServer{op.Server, op.Run, op.Version})
	case f.on[i].run != op.Run:
		f.on[i].run, f.on[i].version = op.Run, op.Version
	case op.Version < f.on[i].version:
		c.fault(MonotonicOnServer, op, "it read version %d after the session had read %d there", op.Version, f.on[i].version)
	default:
		f.on[i].version = op.Version
	}
}

// outlived reports whether a read shows, in place of what the session has written since
// the last loss, a value from before it: versions do not tell, since the server
// counts on from where the loss has put it back.
func (c *checker) outlived(op *Op, f *floor) bool {
	w := c.writes[op.Value]
	return w != nil && w.op.Outcome == OK && !w.inLoss && w.epoch < f.epoch || op.Version == f.wrote && op.Value != f.value
}

// register is one key between two losses.
type register struct {
	epoch int
	key   int32
}

// staleness judges reads against the writes acknowledged longer ago than the bound.
func (c *checker) staleness() {
	type acknowledged struct{ at, version int64 }
	acks := map[register][]acknowledged{}
	for _, w := range c.writes {
		if w.op.Outcome == OK && w.version != 0 && !w.inLoss {
			at := register{w.epoch, w.op.Key}
			acks[at] = append(acks[at], acknowledged{w.op.Return, w.version})
		}
	}
	for _, list := range acks {
		slices.SortFunc(list, func(a, b acknowledged) int { return cmp.Compare(a.at, b.at) })
		for i := 1; i < len(list); i++ {
			list[i].version = max(list[i].version, list[i-1].version)
		}
	}
	for i := range c.h.ops {
		op := &c.h.ops[i]
		e, ok := c.h.epoch(op)
		if op.Kind != Read || op.Outcome != OK || !ok {
			continue
		}
		list := acks[register{e, op.Key}]
		limit := op.Invoke - int64(c.p.Bound)
		n, _ := slices.BinarySearchFunc(list, limit, func(a acknowledged, limit int64) int {
			if a.at < limit {
				return -1
			}
			return 1
		})
		if n > 0 && op.Version < list[n-1].version {
			c.fault(Bounded, op, "it read version %d; %d was acknowledged %s before", op.Version, list[n-1].version, time.Duration(op.Invoke-list[n-1].at))
		}
	}
}
