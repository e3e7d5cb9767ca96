package news

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// told keeps who was said to be the primary.
type told struct {
	*reader
	primaries chan string
}

func (r told) Topology(m bus.Topology) { r.primaries <- m.Primary }

// A router that starts takes no sessions before it is told who the primary is, where there is
// anybody to tell it.
func TestAStartingRouterWaitsForThePrimary(t *testing.T) {
	const complaint = "no lagpoller has said who the primary is: until one does, it is taken to be the configured one"
	for name, c := range map[string]struct {
		runs, answers bool
		most          time.Duration
		complains     int
	}{
		"a lagpoller that has asked all":     {true, true, patience, 0},
		"a lagpoller that has not asked yet": {true, false, 10 * time.Millisecond, 1},
		"none":                               {false, false, patience, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := folder(t)
			startBus(t, d)
			log := &lines{Handler: slog.NewTextHandler(t.Output(), nil), count: make(map[string]int)}
			paper, r := open(t, d, log), told{newReader(), make(chan string, 100)}
			if err := paper.Deliver(r); err != nil {
				t.Fatal(err)
			}
			if c.answers {
				nc, err := bus.Connect(t.Context(), d, bus.Options{Name: "lagpoller", Log: slog.New(log)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(nc.Close)
				answer := func(subject string, b []byte) {
					if _, err := nc.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond(b) }); err != nil {
						t.Fatal(err)
					}
				}
				lags, err := bus.Encode(bus.LagSnapshot{V: bus.Version, Backends: []bus.Lag{}})
				if err != nil {
					t.Fatal(err)
				}
				topology, err := bus.Encode(bus.Topology{V: bus.Version, Primary: "p", Members: []bus.Member{}})
				if err != nil {
					t.Fatal(err)
				}
				answer(bus.SubjectLagSnapshot, lags)
				answer(bus.SubjectTopologySnapshot, topology)
				if err := nc.FlushTimeout(patience); err != nil {
					t.Fatal(err)
				}
			}
			if err := paper.nc.FlushTimeout(patience); err != nil {
				t.Fatal(err)
			}
			if c.runs {
				claim, err := d.Claim(rundir.Lagpoller, "9")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { claim.Close() })
				if _, err := claim.Listen(); err != nil {
					t.Fatal(err)
				}
			}
			paper.AwaitTopology(t.Context(), c.most)
			if (len(r.primaries) > 0) != c.answers {
				t.Errorf("it has been told %d times who the primary is", len(r.primaries))
			}
			log.mu.Lock()
			defer log.mu.Unlock()
			if log.count[complaint] != c.complains {
				t.Errorf("the log has %v", log.count)
			}
		})
	}
}
