package news

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/bus/bustest"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// attentive is a reader that also tells of positions and topologies.
type attentive struct {
	*reader
	lags       chan bus.Lag
	topologies chan bus.Topology
}

func (a attentive) Lag(m bus.Lag)           { a.lags <- m }
func (a attentive) Topology(m bus.Topology) { a.topologies <- m }

// The permissions that docs/bus.md asks for are enough for what a router tells and asks
// on a NATS of the operators.
func TestThePermissionsOfThePageAreEnough(t *testing.T) {
	o, err := server.ProcessConfigFile(bustest.Permissions(t, "../../../../docs/bus.md"))
	if err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, true
	n, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	log := &bustest.Refusals{}
	n.SetLoggerV2(log, false, false, false)
	n.Start()
	t.Cleanup(func() { n.Shutdown(); n.WaitForShutdown() })
	if !n.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	as := func(user string) *nats.Conn {
		t.Helper()
		nc, err := nats.Connect(n.ClientURL(), nats.UserInfo(user, "change me"), nats.CustomInboxPrefix("_PGPILOT"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	lag := bus.Lag{V: bus.Version, Backend: "r1"}
	topology := bus.Topology{V: bus.Version, Primary: "p", Members: []bus.Member{}}
	known := verdict.Verdict{Kind: verdict.Read}
	lagpoller, classifier := as("lagpoller"), as("classifier")
	answer := func(nc *nats.Conn, subject string, encode func() ([]byte, error)) {
		t.Helper()
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
			data, err := encode()
			if err != nil {
				t.Error(err)
			}
			_ = m.Respond(data)
		}); err != nil {
			t.Fatal(err)
		}
		if err := nc.FlushTimeout(patience); err != nil {
			t.Fatal(err)
		}
	}
	answer(lagpoller, bus.SubjectLagSnapshot, func() ([]byte, error) {
		return bus.Encode(bus.LagSnapshot{V: bus.Version, Backends: []bus.Lag{lag}})
	})
	answer(lagpoller, bus.SubjectTopologySnapshot, func() ([]byte, error) { return bus.Encode(topology) })
	answer(classifier, bus.SubjectVerdictSnapshot, func() ([]byte, error) {
		return bus.Encode(part([]bus.Flush{{V: bus.Version, Database: "a", Generation: 7}}, known.Message("a", sqltoken.Key{1})))
	})
	wanted := make(chan bus.Want, 10)
	if _, err := bus.Subscribe(lagpoller, bus.SubjectFenceWant, nil, func(w bus.Want) { wanted <- w }); err != nil {
		t.Fatal(err)
	}
	if err := lagpoller.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}

	d, err := rundir.Open(t.TempDir() + "/r")
	if err != nil {
		t.Fatal(err)
	}
	claim, err := d.Claim(rundir.Router, "")
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	cfg := config.Default()
	cfg.Bus.URL, cfg.Bus.User, cfg.Bus.Password = n.ClientURL(), "router", "change me"
	paper, err := Open(t.Context(), &service.Env{Config: cfg, Dir: d, Claim: claim, Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer paper.Close()
	r := attentive{newReader(), make(chan bus.Lag, 10), make(chan bus.Topology, 10)}
	if err := paper.Deliver(r); err != nil {
		t.Fatal(err)
	}
	within := time.After(patience)
	hear := func(what string) {
		t.Helper()
		for range 2 {
			select {
			case m := <-r.lags:
				if m.Backend != "r1" {
					t.Errorf("%s: %+v", what, m)
				}
			case m := <-r.topologies:
				if m.Primary != "p" {
					t.Errorf("%s: %+v", what, m)
				}
			case <-within:
				t.Fatalf("%s: not heard", what)
			}
		}
	}
	hear("snapshots")
	r.wait(t, "the verdicts have come", func() bool { return r.flushes["a"] == 7 && len(r.verdicts) == 1 })
	for _, err := range []error{
		bus.Publish(lagpoller, bus.SubjectLag+"r1", lag), bus.Publish(lagpoller, bus.SubjectTopology, topology),
		bus.Publish(classifier, bus.SubjectVerdict+"a", known.Message("a", sqltoken.Key{2})),
		bus.Publish(classifier, bus.SubjectVerdictFlush, bus.Flush{V: bus.Version, Database: "a", Generation: 8}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	hear("news")
	r.wait(t, "the news of verdicts have come", func() bool { return r.flushes["a"] == 8 && len(r.verdicts) == 2 })
	paper.Want(want(5))
	select {
	case w := <-wanted:
		if w.Position != want(5) {
			t.Errorf("wanted %+v", w)
		}
	case <-within:
		t.Fatal("the want did not come")
	}
	if lines := log.All(); len(lines) != 0 {
		t.Errorf("the NATS server refuses: %q", lines)
	}
}
