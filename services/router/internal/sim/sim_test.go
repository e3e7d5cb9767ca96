package sim

import (
	"flag"
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/pgpilot/pgpilot/libs/consistency"
)

var (
	schedules = flag.Int("schedules", 3000, "how many courses of events the simulation takes")
	first     = flag.Uint64("first", 1, "the seed of the first of them")
	verbose   = flag.Bool("tell", false, "write what happens")
)

// promise is a broken promise of the router's.
type promise string

func broken(format string, args ...any) { panic(promise(fmt.Sprintf(format, args...))) }

// course takes one course of events and says what is wrong with it.
func course(seed uint64, p consistency.Promise, trace func(string, ...any)) (c counts, wrong string) {
	defer func() {
		if e := recover(); e != nil {
			b, ok := e.(promise)
			if !ok {
				b = promise(fmt.Sprintf("%v\n%s", e, debug.Stack()))
			}
			wrong = string(b)
		}
	}()
	w := newWorld(seed)
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

// strictPromise is what strict promises of a session's own reads. That a write comes
// behind what the session had read is not: for a moment after a failover that lost
// writes, a replica that has them may still be read.
func strictPromise() consistency.Promise {
	return consistency.Promises(consistency.ReadYourWrites, consistency.MonotonicOnServer)
}

// TestCourses takes courses of events and wants each of them to keep what the mode
// promises.
func TestCourses(t *testing.T) {
	strict := strictPromise()
	var trace func(string, ...any)
	if *verbose {
		trace = t.Logf
	}
	var sum counts
	wrong := 0
	for seed := *first; seed < *first+uint64(*schedules); seed++ {
		c, why := course(seed, strict, trace)
		sum.operations += c.operations
		sum.onReplicas += c.onReplicas
		sum.losses += c.losses
		sum.promotions += c.promotions
		sum.restarts += c.restarts
		if why != "" {
			t.Errorf("seed %d: %s", seed, why)
			if wrong++; wrong == 3 {
				break
			}
		}
	}
	t.Logf("%d courses: %+v", *schedules, sum)
	if sum.onReplicas < *schedules || sum.promotions < *schedules/20 || sum.losses < *schedules/20 {
		t.Errorf("too little happens to prove anything: %+v in %d courses", sum, *schedules)
	}
}
