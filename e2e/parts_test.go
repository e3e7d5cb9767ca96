package e2e

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

func TestClassifierKilledUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	crew := r.newCrew(16)
	crew.start()
	crew.pass(5)
	c := r.connect()

	r.kill(rundir.Classifier, 1)
	crew.pass(20)
	// Nobody can tell that this one reads.
	c.must(`SELECT 1 AS "seen by no classifier"`)
	if got := c.route(); got.Role != "primary" || got.Reason != "write" {
		t.Errorf("an unjudged statement: %+v", got)
	}
	// The crew's statements were judged before.
	crew.pass(20)

	r.start(rundir.Classifier, 1)
	n := 0
	r.until("a new statement is judged to read", func() bool {
		n++
		c.must(fmt.Sprintf(`SELECT 1 AS "new statement %d"`, n))
		return c.route().Reason == "read"
	})
	crew.pass(20)
	crew.stop()
	crew.mustBeSound()
	if judged := r.metric("pgpilot_classifier_judged_total"); judged == 0 {
		t.Error("the new classifier has judged nothing")
	}
}

func TestLagpollerKilledUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	crew := r.newCrew(16)
	crew.start()
	crew.pass(5)
	watcher, events := r.subscribe()

	r.kill(rundir.Lagpoller, 1)
	crew.pass(100)
	fresh := r.connect()
	fresh.must("SELECT count(*) FROM crew")

	r.start(rundir.Lagpoller, 1)
	r.until("the watcher is connected again", func() bool { return watcher.IsConnected() })
	drain(events)
	heard := map[string]bool{}
	r.until("lag events of all servers", func() bool {
		for len(events) > 0 {
			if m := <-events; m.Subject != bus.SubjectLagSnapshot {
				heard[m.Subject] = true
			}
		}
		return len(heard) == 3
	})
	crew.stop()
	crew.mustBeSound()

	r.caughtUp()
	r.awaitReplicas(cluster.Replicas()...)
	for _, h := range crew.hands {
		if !h.round() {
			t.Fatal(h.err)
		}
		r.until(fmt.Sprintf("session %d reads from a replica", h.row), func() bool { return h.port() != cluster.Primary().Port })
	}
	crew.mustBeSound()
}

// subscribe listens for lag events as a stranger does.
func (r *rig) subscribe() (*nats.Conn, chan *nats.Msg) {
	r.t.Helper()
	nc, err := nats.Connect("nats://"+r.cfg.Bus.Listen, nats.Timeout(patience), nats.MaxReconnects(-1))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(nc.Close)
	events := make(chan *nats.Msg, 1<<14)
	if _, err := nc.ChanSubscribe(bus.SubjectLag+">", events); err != nil {
		r.t.Fatal(err)
	}
	if err := nc.FlushTimeout(patience); err != nil {
		r.t.Fatal(err)
	}
	return nc, events
}

func drain(events chan *nats.Msg) {
	for {
		select {
		case <-events:
		default:
			return
		}
	}
}
