package main

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/bus/bustest"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// The permissions that docs/bus.md asks for are enough for what classifiers tell and ask
// on a NATS of the operators.
func TestThePermissionsOfThePageAreEnough(t *testing.T) {
	o, err := server.ProcessConfigFile(bustest.Permissions(t, "../../docs/bus.md"))
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

	s := newStand(t)
	s.configure(map[string]any{"bus": map[string]any{"url": n.ClientURL(), "user": "classifier", "password": "change me"}})
	router, err := nats.Connect(n.ClientURL(), nats.UserInfo("router", "change me"), nats.CustomInboxPrefix("_PGPILOT"))
	if err != nil {
		t.Fatal(err)
	}
	defer router.Close()
	seen := make(chan bus.Verdict, 100)
	if _, err := bus.Subscribe(router, bus.SubjectVerdict+"*", nil, func(m bus.Verdict) { seen <- m }); err != nil {
		t.Fatal(err)
	}
	if err := router.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	s.start("1")
	s.start("2") // which asks the first for what it knows
	c := s.client()
	connected(t, c, 2)
	for _, id := range []string{"1", "2"} {
		until(t, "it is connected", func() bool { return s.metric(id, "pgpilot_bus_connected") == 1 })
	}
	wantKind(t, c, noCatalog(1), verdict.Write)
	select {
	case m := <-seen:
		if m.Kind != "write" {
			t.Errorf("seen %+v", m)
		}
	case <-time.After(patience):
		t.Fatal("nothing was published")
	}
	until(t, "both tell what they know", func() bool {
		tell := map[string]bool{}
		err := bus.Collect(t.Context(), router, bus.SubjectVerdictSnapshot, time.Second, nil, func(m bus.VerdictSnapshot) { tell[m.Publisher] = true })
		return err == nil && len(tell) == 2
	})
	if lines := log.All(); len(lines) != 0 {
		t.Errorf("the NATS server refuses: %q", lines)
	}
}
