package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// stroller is a session that executes one statement after the other, and knows when each
// was sent and answered.
type stroller struct {
	*client
	kind  string
	spans []span
	// done counts them while it is at it.
	done atomic.Int64
}

type span struct{ sent, answered time.Time }

// strolls are the statements of the kinds, over and over; what begins with a bar is executed
// once before.
var strolls = map[string][]string{
	"read":        {"SELECT n FROM strolled WHERE id = %d"},
	"write":       {"UPDATE strolled SET n = n + 1 WHERE id = %d"},
	"transaction": {"BEGIN", "UPDATE strolled SET n = n + 1 WHERE id = %d", "SELECT n FROM strolled WHERE id = %[1]d", "COMMIT"},
	"temporary":   {"|CREATE TEMP TABLE mine AS SELECT %d AS n", "UPDATE mine SET n = n + 1"},
}

// BenchmarkPauseOfAMove restarts routers beside another one, and measures what the client of
// a session that moves notices of it: how long the one statement takes that was under way when
// its new router took the session or, if there was none, the next one. When that was, the
// router's log says.
func BenchmarkPauseOfAMove(b *testing.B) {
	for _, clients := range []int{4, 32} {
		b.Run(strconv.Itoa(clients), func(b *testing.B) {
			r := rigOf(b, stacktest.Options{Lab: newCluster(b), Routers: 2, LogLevel: "debug"}, func(c *config.Config) { c.Pool.MaxSize = 40 })
			r.connect().must("CREATE TABLE strolled (id int PRIMARY KEY, n int); INSERT INTO strolled SELECT generate_series(0, 99), 0")
			stop := make(chan struct{})
			var wg sync.WaitGroup
			var all []*stroller
			for len(all) < clients {
				for kind, texts := range strolls {
					s := &stroller{client: r.connect(), kind: kind}
					id := len(all)
					all = append(all, s)
					wg.Go(func() { s.stroll(id, texts, stop) })
				}
			}
			for _, s := range all { // what their statements do is known then
				r.until("all have been at work", func() bool { return s.done.Load() > 100 || b.Failed() })
			}
			restarts := 0
			for b.Loop() {
				for range 2 {
					if err := r.Service(rundir.Router, 1+restarts%2).Restart(timeout(b)); err != nil {
						b.Fatal(err)
					}
					restarts++
				}
			}
			close(stop)
			wg.Wait()
			r.report(b, all)
		})
	}
}

// stroll executes the statements until it is told to stop.
func (s *stroller) stroll(id int, texts []string, stop chan struct{}) {
	for {
		for _, text := range texts {
			once, is := strings.CutPrefix(text, "|")
			if is && len(s.spans) > 0 {
				continue
			}
			if text = once; strings.Contains(text, "%") {
				text = fmt.Sprintf(text, id)
			}
			sent := time.Now()
			if _, err := s.run(text); err != nil {
				s.t.Errorf("%s client: %s: %v", s.kind, text, err)
				return
			}
			s.spans = append(s.spans, span{sent, time.Now()})
			s.done.Add(1)
		}
		select {
		case <-stop:
			return
		default:
		}
	}
}

// came is a line of a router's log about a session that has come.
var came = regexp.MustCompile(`(?m)^time=(\S+) .*msg="session taken".* client=(\S+)`)

// report tells how long the statements took that met with a move, and the others.
func (r *rig) report(b *testing.B, all []*stroller) {
	moves := map[string][]time.Time{}
	for number := range 2 {
		log, err := os.ReadFile(r.Service(rundir.Router, 1+number).LogFile())
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range came.FindAllStringSubmatch(string(log), -1) {
			at, err := time.Parse(time.RFC3339Nano, m[1])
			if err != nil {
				b.Fatal(err)
			}
			moves[m[2]] = append(moves[m[2]], at)
		}
	}
	var met, others []time.Duration
	for _, s := range all {
		at := moves[s.conn.Conn().LocalAddr().String()]
		slices.SortFunc(at, time.Time.Compare)
		if len(at) > 0 {
			at = at[1:] // its login
		}
		for _, w := range s.spans {
			n := 0
			for n < len(at) && at[n].Before(w.answered) {
				n++
			}
			if at = at[n:]; n > 0 {
				met = append(met, w.answered.Sub(w.sent))
			} else {
				others = append(others, w.answered.Sub(w.sent))
			}
		}
	}
	if len(met) == 0 {
		b.Fatal("no session has moved")
	}
	for name, d := range map[string][]time.Duration{"pause": met, "else": others} {
		slices.Sort(d)
		for unit, n := range map[string]int{"p50": len(d) / 2, "p99": len(d) * 99 / 100} {
			b.ReportMetric(float64(d[n].Microseconds())/1000, name+"-"+unit+"-ms")
		}
	}
	b.ReportMetric(float64(met[len(met)-1].Microseconds())/1000, "pause-max-ms")
	b.ReportMetric(float64(len(met)), "moves")
	b.ReportMetric(0, "ns/op")
}
