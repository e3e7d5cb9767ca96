package sim

import (
	"flag"
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/pgpilot/pgpilot/libs/consistency"
)

var (
	schedules   = flag.Int("schedules", 1000, "how many courses of events the simulation takes for each mode")
	first       = flag.Uint64("first", 1, "the seed of the first of them")
	withMutants = flag.Bool("mutants", false, "show that deliberate faults are found, which takes minutes")
	verbose     = flag.Bool("tell", false, "write what happens")
)

// promise is a broken promise of the router's.
type promise string

func broken(format string, args ...any) { panic(promise(fmt.Sprintf(format, args...))) }

// course takes one course of events and says what is wrong with it.
func course(seed uint64, mode string, p consistency.Promise, trace func(string, ...any)) (c counts, wrong string) {
	defer func() {
		if e := recover(); e != nil {
			b, ok := e.(promise)
			if !ok {
				b = promise(fmt.Sprintf("%v\n%s", e, debug.Stack()))
			}
			wrong = string(b)
		}
	}()
	w := newWorld(seed, mode)
	if trace != nil {
		w.trace = trace
	}
	var list []happening
	for range events + int(seed%100) {
		list = w.step(list)
	}
	for _, c := range w.router.clients { // the answers that did not come
		if c.busy {
			c.end()
		}
	}
	found := consistency.Check(consistency.NewHistory(w.logs, w.losses), p)
	if len(found.Violations) > 0 {
		return w.counts, found.Violations[0].String()
	}
	return w.counts, ""
}

// promises are what the modes promise here. That a write comes behind what the session
// had read is linear's alone: for a moment after a failover that lost writes, a replica
// that has them may still be read in the other modes.
func promises() map[string]consistency.Promise {
	return map[string]consistency.Promise{
		"strict": consistency.Promises(consistency.ReadYourWrites, consistency.MonotonicOnServer),
		"causal": consistency.Promises(consistency.ReadYourWrites, consistency.MonotonicOnServer, consistency.MonotonicReads),
		"linear": consistency.Promises(consistency.ReadYourWrites, consistency.MonotonicOnServer, consistency.MonotonicReads,
			consistency.WritesFollowReads, consistency.Forked, consistency.Linearizable),
	}
}

// TestCourses takes courses of events and wants each of them to keep what the mode
// promises.
func TestCourses(t *testing.T) {
	var trace func(string, ...any)
	if *verbose {
		trace = t.Logf
	}
	for mode, promise := range promises() {
		t.Run(mode, func(t *testing.T) {
			var sum counts
			wrong := 0
			for seed := *first; seed < *first+uint64(*schedules); seed++ {
				c, why := course(seed, mode, promise, trace)
				sum.add(c)
				if why != "" {
					t.Errorf("seed %d: %s", seed, why)
					if wrong++; wrong == 3 {
						break
					}
				}
			}
			t.Logf("%d courses: %+v", *schedules, sum)
			if sum.onReplicas < *schedules/4 || sum.promotions < *schedules/20 || sum.losses < *schedules/20 {
				t.Errorf("too little happens to prove anything: %+v in %d courses", sum, *schedules)
			}
		})
	}
}
