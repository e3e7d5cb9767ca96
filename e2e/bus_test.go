package e2e

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/bus"
)

func TestStrangerHearsLagEvents(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	_, events := r.subscribe()
	replicas := map[string]bool{}
	r.until("lag events of every server", func() bool {
		for len(events) > 0 {
			m := <-events
			if m.Subject == bus.SubjectLagSnapshot {
				continue // a service's request, heard under the same wildcard
			}
			l, err := bus.Decode[bus.Lag](m.Data)
			if err != nil {
				t.Fatalf("%s: %v", m.Data, err)
			}
			if m.Subject != bus.SubjectLag+bus.SafeName(l.Backend) {
				t.Fatalf("%s came on %s", m.Data, m.Subject)
			}
			if l.Role == bus.Replica && l.Healthy && l.ReplayLSN > 0 || l.Role == bus.Primary && l.InsertLSN > 0 {
				replicas[l.Backend] = true
			}
		}
		return len(replicas) == 3
	})
}

// A forged event that was believed would let a paused replica pass for one that has
// replayed everything.
func TestStrangerCannotForgeLagEvents(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	crew := r.newCrew(4)
	pause(t, cluster.Replicas()...)

	_, events := r.subscribe()
	forged := map[string][]byte{}
	r.until("an event of every replica to forge", func() bool {
		for len(events) > 0 {
			m := <-events
			if m.Subject == bus.SubjectLagSnapshot {
				continue
			}
			l, err := bus.Decode[bus.Lag](m.Data)
			if err != nil {
				t.Fatal(err)
			}
			if l.Role == bus.Replica {
				l.ReplayLSN, l.Seq, l.LagBytes, l.LagMillis = 1<<60, 1<<60, 0, 0
				l.Publisher, l.At = "forger", time.Now()
				if forged[m.Subject], err = json.Marshal(l); err != nil {
					t.Fatal(err)
				}
			}
		}
		return len(forged) == 2
	})

	refused := make(chan error, 64)
	stranger, err := nats.Connect("nats://"+r.cfg.Bus.Listen, nats.Timeout(patience), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case refused <- err:
		default:
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	drain(events)
	for subject, data := range forged {
		if err := stranger.Publish(subject, data); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{bus.SubjectTopology, bus.SubjectVerdict + "pgpilot", bus.SubjectVerdictFlush, bus.SubjectFenceWant} {
		if err := stranger.Publish(subject, []byte(`{"v":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := stranger.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	for range len(forged) + 4 {
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrPermissionViolation) && !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
				t.Errorf("got %v", err)
			}
		case <-time.After(patience):
			t.Fatal("a publish was not refused")
		}
	}

	crew.work(200)
	crew.mustBeSound()
	if _, onReplica := crew.totals(); onReplica != 0 {
		t.Errorf("%d fenced reads ran on paused replicas", onReplica)
	}
	for len(events) > 0 {
		if m := <-events; strings.Contains(string(m.Data), "forger") {
			t.Errorf("heard the forged event %s", m.Data)
		}
	}
	resume(t, cluster.Replicas()...)
}
