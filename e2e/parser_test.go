package e2e

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
)

// tedious takes the parser far longer than tediousTime allows, and is short enough to
// be sent to a classifier.
var tedious = "SELECT 1 WHERE 1 IN (1" + strings.Repeat(",a.b.c+2", 40_000) + ")"

const tediousTime = 20 * time.Millisecond

// A statement that hangs the parser, or ends it, costs its own verdict: it runs on the
// primary, where the server says what is wrong with it, and other sessions go on and
// have their statements judged.
func TestAStatementThatStopsTheParserHarmsNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), func(c *config.Config) {
		c.Classify.ParserTime = config.Duration(tediousTime)
		c.Classify.Timeout = config.Duration(5 * time.Second)
	})
	r.caughtUp()
	var others sync.WaitGroup
	var done atomic.Bool
	judged := make([]atomic.Int64, 4)
	for i := range judged {
		c := r.connect()
		others.Go(func() {
			for n := 0; !done.Load(); n++ {
				// Each has a template of its own, which only a classifier can judge.
				if _, err := c.run(fmt.Sprintf("SELECT %d AS x%d_%d", n, i, n)); err != nil {
					t.Errorf("another session: %v", err)
					return
				}
				judged[i].Add(1)
			}
		})
	}
	ended := func() float64 {
		return r.metric("pgpilot_classifier_workers_ended_total", "cause", "hang") + r.metric("pgpilot_classifier_workers_ended_total", "cause", "memory") +
			r.metric("pgpilot_classifier_workers_ended_total", "cause", "crash")
	}
	c := r.connect()
	for n := range 3 {
		before := judged[0].Load()
		if _, err := c.run(tedious); sqlstate(err) != "42P01" {
			t.Fatalf("round %d: %v, want the server's own complaint", n, err)
		}
		r.until("the others go on", func() bool { return judged[0].Load() > before+20 })
	}
	done.Store(true)
	others.Wait()
	if n := ended(); n != 1 {
		t.Errorf("%v parser processes ended by one text that was sent three times", n)
	}
	if n := r.metric("pgpilot_classifier_quarantine_entries"); n != 1 {
		t.Errorf("%v texts in quarantine", n)
	}
	// It binds nothing: what the session reads afterwards runs on replicas, once these
	// have what it may have written.
	r.until("the session's reads run on a replica", func() bool {
		c.one("SELECT 'still judged'")
		return c.route().Role == "replica"
	})
}
