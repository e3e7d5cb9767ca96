package e2e

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// novelties gives statements that nobody has judged yet.
type novelties struct {
	mu sync.Mutex
	n  int
}

func (s *novelties) next() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return fmt.Sprintf(`SELECT 1 AS "novelty %d"`, s.n)
}

// A classifier that is started is asked without anybody's help, shares the work, and is
// forgotten when it has gone; one that hangs is asked hardly anything.
func TestClassifiersComeAndGo(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), func(c *config.Config) {
		c.Classify.Timeout = config.Duration(2 * time.Second) // on a busy machine, too, enough for one that runs
	})
	judged := func(id string) float64 { return r.metric("pgpilot_classifier_judged_total", "instance", id) }
	unjudged := func() float64 { return r.metric("pgpilot_router_unjudged_total") }
	var fresh novelties
	c := r.connect()
	r.until("new statements are judged", func() bool { c.must(fresh.next()); return c.route().Reason == "read" })

	second, err := r.AddInstance(timeout(t), rundir.Classifier)
	if err != nil {
		t.Fatal(err)
	}
	together := func(sessions, rounds int) {
		var all sync.WaitGroup
		for range sessions {
			s := r.connect()
			defer s.close()
			all.Go(func() {
				for range rounds {
					if _, err := s.run(fresh.next()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	first := judged("1")
	r.until("both judge", func() bool {
		together(8, 10)
		return judged("2") > 0 && judged("1") > first
	})

	// Only what it was asked before it was seen to hang has to do without an answer:
	// a question for each session at most.
	if err := second.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := func() { _ = second.Signal(syscall.SIGCONT) }
	t.Cleanup(resume)
	before := unjudged()
	for range 100 {
		c.must(fresh.next())
	}
	if n := unjudged() - before; n > 10 {
		t.Errorf("%v of 100 statements had no verdict because one of two classifiers hangs", n)
	}
	resume()

	// One that is killed is asked nothing more.
	if err := second.Kill(timeout(t)); err != nil {
		t.Fatal(err)
	}
	r.until("it is forgotten", func() bool {
		before := unjudged()
		together(4, 10)
		return unjudged() == before
	})
	if err := second.Start(timeout(t)); err != nil {
		t.Fatal(err)
	}
	r.until("it judges again", func() bool { together(8, 10); return judged("2") > 0 })
}
