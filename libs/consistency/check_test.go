package consistency

import (
	"math/rand/v2"
	"testing"
	"time"
)

const (
	million  = 1_000_000
	sessions = 32
	keys     = 500
)

// ideal makes a history of a register that takes one operation after the other, each
// at a moment between its invocation and its return. It has no violation.
func ideal(seed uint64, n int) []Op {
	r := rand.New(rand.NewPCG(seed, 2))
	ops := make([]Op, 0, n)
	var until [sessions]int64 // when the session's last operation returned
	var value, version [keys]int64
	for i := range n {
		moment := int64(i+10) * 1000
		s := r.IntN(sessions)
		for until[s] >= moment {
			s = (s + 1) % sessions
		}
		op := Op{Session: int32(s), Key: int32(r.IntN(keys)), Server: int32(r.IntN(3)), Run: 1}
		op.Invoke = max(until[s]+1, moment-int64(r.IntN(20000)))
		op.Return = moment + int64(r.IntN(20000))
		until[s] = op.Return
		k := op.Key
		if r.IntN(4) == 0 {
			op.Kind = Write
			version[k]++
			value[k] = int64(i + 1)
		}
		op.Value, op.Version = value[k], version[k]
		ops = append(ops, op)
	}
	return ops
}

// history makes one of operations of all sessions.
func history(ops []Op, losses ...Loss) *History {
	logs := map[int32]*Log{}
	var all []*Log
	for _, op := range ops {
		l := logs[op.Session]
		if l == nil {
			l = NewLog(op.Session)
			logs[op.Session] = l
			all = append(all, l)
		}
		l.Add(op)
	}
	return NewHistory(all, losses)
}

func everything() Promise {
	p := Promises(ReadYourWrites, MonotonicOnServer, MonotonicReads, WritesFollowReads, Bounded, Forked, Linearizable)
	p.Bound = time.Millisecond
	return p
}

func TestAnIdealRegisterHasNoViolation(t *testing.T) {
	for seed := range uint64(2) {
		r := Check(history(ideal(seed, 50_000)), everything())
		if len(r.Violations) > 0 || len(r.Undecided) > 0 || r.Operations() != 50_000 || r.Writes < 10_000 {
			t.Fatalf("seed %d: %d operations, violations %v, undecided %v", seed, r.Operations(), r.Violations, r.Undecided)
		}
	}
}

// earlier finds, for the operation at i, the last one before it that fits.
func earlier(ops []Op, i int, fits func(*Op) bool) *Op {
	for j := i - 1; j >= 0; j-- {
		if fits(&ops[j]) {
			return &ops[j]
		}
	}
	return nil
}

// TestOneViolationInAMillion breaks one guarantee with one operation of a million and
// wants that operation named, and no other.
func TestOneViolationInAMillion(t *testing.T) {
	base := ideal(1, million)
	written := map[place]int64{}
	for _, op := range base {
		written[place{0, op.Key, op.Version}] = op.Value
	}
	set := func(op *Op, version int64) { op.Version, op.Value = version, written[place{0, op.Key, version}] }
	for name, c := range map[string]struct {
		broken Guarantee
		others []Guarantee // that the same operation breaks as well
		// hurt changes the operation at i, a read; false: it will not do.
		hurt func(ops []Op, i int) bool
		n    int // operations
	}{
		"a read misses the session's write": {n: million, broken: ReadYourWrites, others: []Guarantee{MonotonicReads, MonotonicOnServer, Bounded, Linearizable}, hurt: func(ops []Op, i int) bool {
			op := &ops[i]
			w := earlier(ops, i, func(o *Op) bool { return o.Session == op.Session && o.Key == op.Key })
			if w == nil || w.Kind != Write || op.Version < 10 {
				return false
			}
			set(op, w.Version-1)
			return true
		}},
		"a read goes back": {n: million, broken: MonotonicReads, others: []Guarantee{Bounded, Linearizable}, hurt: func(ops []Op, i int) bool {
			op := &ops[i]
			r := earlier(ops, i, func(o *Op) bool { return o.Session == op.Session && o.Key == op.Key })
			if r == nil || r.Kind != Read || r.Server == op.Server || r.Version < 10 || wroteAt(ops, i, r.Version) {
				return false
			}
			set(op, r.Version-1)
			return true
		}},
		"a read goes back on one server": {n: million / 10, broken: MonotonicOnServer, others: []Guarantee{MonotonicReads, Bounded, Linearizable}, hurt: func(ops []Op, i int) bool {
			op := &ops[i]
			r := earlier(ops, i, func(o *Op) bool { return o.Session == op.Session && o.Key == op.Key })
			if r == nil || r.Kind != Read || r.Server != op.Server || r.Version < 10 || wroteAt(ops, i, r.Version) {
				return false
			}
			set(op, r.Version-1)
			return true
		}},
		"a read misses another's write": {n: million, broken: Linearizable, others: []Guarantee{Bounded}, hurt: func(ops []Op, i int) bool {
			op := &ops[i]
			w := earlier(ops, i, func(o *Op) bool { return o.Key == op.Key && o.Kind == Write && o.Version == op.Version })
			own := earlier(ops, i, func(o *Op) bool { return o.Key == op.Key && o.Session == op.Session })
			if w == nil || op.Version < 10 || w.Return+100_000 > op.Invoke || w.Session == op.Session || own == nil || own.Version >= op.Version {
				return false
			}
			set(op, op.Version-1)
			return true
		}},
		"a read misses what is older than the bound": {n: million / 10, broken: Bounded, others: []Guarantee{Linearizable}, hurt: func(ops []Op, i int) bool {
			op := &ops[i]
			own := earlier(ops, i, func(o *Op) bool { return o.Key == op.Key && o.Session == op.Session })
			w := earlier(ops, i, func(o *Op) bool {
				return o.Key == op.Key && o.Kind == Write && o.Return+int64(2*time.Millisecond) < op.Invoke
			})
			if w == nil || w.Version < 10 || own == nil || own.Version >= w.Version-1 {
				return false
			}
			set(op, w.Version-1)
			return true
		}},
		"a value that nobody has written": {n: million / 10, broken: MadeUp, others: []Guarantee{ReadYourWrites, Linearizable}, hurt: func(ops []Op, i int) bool {
			if ops[i].Value == 0 {
				return false
			}
			ops[i].Value = 10 * million
			return true
		}},
		"a value of another key": {n: million / 10, broken: MadeUp, others: []Guarantee{ReadYourWrites, Linearizable}, hurt: func(ops []Op, i int) bool {
			o := earlier(ops, i, func(o *Op) bool { return o.Key != ops[i].Key && o.Kind == Write })
			ops[i].Value = o.Value
			return true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ops := append([]Op(nil), base[:c.n]...)
			at := -1
			for i := c.n / 2; at < 0; i++ {
				if ops[i].Kind == Read && c.hurt(ops, i) {
					at = i
				}
			}
			may := map[Guarantee]bool{c.broken: true}
			for _, g := range c.others {
				may[g] = true
			}
			p := Promises(ReadYourWrites, MonotonicOnServer, MonotonicReads, WritesFollowReads, Bounded, Forked, c.broken)
			p.Bound = time.Millisecond
			r := Check(history(ops), p)
			if r.Operations() != c.n || len(r.Undecided) > 0 {
				t.Fatalf("%d operations, undecided %v", r.Operations(), r.Undecided)
			}
			named := false
			for _, v := range r.Violations {
				if !may[v.Guarantee] {
					t.Errorf("broken besides: %v", v)
				}
				if v.Op != ops[at] && v.Guarantee != Linearizable {
					t.Errorf("named %v, want operation %+v", v, ops[at])
				}
				named = named || v.Guarantee == c.broken
			}
			if !named {
				t.Errorf("%v is not noticed: %v", c.broken, r.Violations)
			}
		})
	}
}

// wroteAt reports whether the session of operation i wrote its key at the version or
// later before.
func wroteAt(ops []Op, i int, version int64) bool {
	return earlier(ops, i, func(o *Op) bool {
		return o.Kind == Write && o.Session == ops[i].Session && o.Key == ops[i].Key && o.Version >= version
	}) != nil
}
