package consistency

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// decideWithin bounds the search for an order of one key's operations. Keys have
// few operations at a time, so it is not reached but by mistakes of the recorder.
const decideWithin = 30 * time.Second

// value is the state of the model: what the register holds. Between two losses nobody
// knows what it holds at first.
type value struct {
	known bool
	is    int64
}

// model is a register, for porcupine.
var model = porcupine.Model{
	Init: func() any { return value{} },
	Step: func(state, input, _ any) (bool, any) {
		s, op := state.(value), input.(*Op)
		now := value{true, op.Value}
		return op.Kind == Write || !s.known || s == now, now
	},
}

// order asks for an order of each key's operations that explains all answers.
func (c *checker) order() {
	keys := map[register][]*Op{}
	seen := c.seen()
	for i := range c.h.ops {
		op := &c.h.ops[i]
		e, ok := c.h.epoch(op)
		switch {
		case op.Outcome == Failed || op.Kind == Read && (op.Outcome == Unknown || !ok):
		case ok:
			at := register{e, op.Key}
			keys[at] = append(keys[at], op)
		default: // a write during a loss has taken effect where somebody has seen it
			for ; e <= len(c.h.losses); e++ {
				if at := (register{e, op.Key}); seen[sight{at, op.Value}] {
					keys[at] = append(keys[at], op)
				}
			}
		}
	}
	for at, ops := range keys {
		switch porcupine.CheckOperationsTimeout(model, c.operations(at, ops), decideWithin) {
		case porcupine.Illegal:
			c.fault(Linearizable, c.first(at, ops), "no order of the key's operations explains it")
		case porcupine.Unknown:
			c.r.Undecided = append(c.r.Undecided, at.key)
		}
	}
}

// sight is a value that was read between two losses.
type sight struct {
	at    register
	value int64
}

func (c *checker) seen() map[sight]bool {
	out := map[sight]bool{}
	for i := range c.h.ops {
		op := &c.h.ops[i]
		if e, ok := c.h.epoch(op); ok && op.Kind == Read && op.Outcome == OK {
			out[sight{register{e, op.Key}, op.Value}] = true
		}
	}
	return out
}

// operations gives what porcupine is to put in order. A write whose answer was lost
// takes effect at any time, or never: unless somebody has seen it, it is left out. The
// first stretch of the history begins with the value 0.
func (c *checker) operations(at register, ops []*Op) []porcupine.Operation {
	out := make([]porcupine.Operation, 0, len(ops)+1)
	if at.epoch == 0 {
		out = append(out, porcupine.Operation{Input: &Op{Kind: Write}, Call: math.MinInt64, Return: math.MinInt64 + 1})
	}
	for _, op := range ops {
		o := porcupine.Operation{ClientId: int(op.Session), Input: op, Call: op.Invoke, Return: op.Return}
		if op.Kind == Write && op.Outcome == Unknown {
			if c.writes[op.Value].version == 0 {
				continue
			}
			o.Return = math.MaxInt64
		}
		out = append(out, o)
	}
	return out
}

// first gives the operation up to whose return there is no order any more.
func (c *checker) first(at register, ops []*Op) *Op {
	ends := slices.Clone(ops)
	slices.SortFunc(ends, func(a, b *Op) int { return cmp.Compare(a.Return, b.Return) })
	n, _ := slices.BinarySearchFunc(ends, true, func(end *Op, _ bool) int {
		var until []*Op
		for _, op := range ops {
			if op.Return <= end.Return {
				until = append(until, op)
			} else if op.Kind == Write && op.Invoke <= end.Return { // may have taken effect already
				pending := *op
				pending.Outcome = Unknown
				until = append(until, &pending)
			}
		}
		if porcupine.CheckOperationsTimeout(model, c.operations(at, until), decideWithin) == porcupine.Ok {
			return -1
		}
		return 1
	})
	return ends[min(n, len(ends)-1)]
}
