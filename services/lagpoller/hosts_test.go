package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// host configures a lagpoller of one of several hosts.
func host(c *lab.Cluster, secret, listen string, routes ...string) *config.Config {
	cfg := configure(c)
	cfg.Bus.SecretFile, cfg.Bus.Cluster = secret, config.BusCluster{Listen: listen, Routes: routes}
	return cfg
}

// joinedWith waits until the bus is one with those of so many other lagpollers.
func (lp *lagpoller) joinedWith(t *testing.T, others float64) {
	t.Helper()
	for deadline := time.Now().Add(patience); lp.scrape(t)["pgpilot_bus_routes"] != others; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("joined with %v others within %v, want %v", lp.scrape(t)["pgpilot_bus_routes"], patience, others)
		}
	}
}

// hears waits for news from one lagpoller that is told after the call.
func (e *ear) hears(t *testing.T, backend string, d *rundir.Dir, id string) {
	t.Helper()
	self, err := bus.Identity(d, id)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	e.lag(t, backend, "from "+self, func(l bus.Lag) bool { return l.Publisher == self && l.At.After(now) })
}

// A host's lagpoller is replaced with overlap, as a supervisor does it: the next one starts, then
// the one before ends. Whoever was joined with the host stays so and hears the one that is there, and whoever
// comes finds it at the address that he was told, and those that it is joined with.
func TestAHostsAddressOutlivesItsLagpoller(t *testing.T) {
	c := labtest.Start(t, 0)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	here, there, elsewhere := runDir(t), runDir(t), runDir(t)
	address, far := labtest.FreeAddress(t), labtest.FreeAddress(t)
	cfg, farCfg := host(c, secret, address, far), host(c, secret, far, address)
	backend := cfg.Primary.Name

	second := startAs(t, there, "1", farCfg)
	ear := listenOn(t, there, config.Bus{SecretFile: secret})
	lp := startAs(t, here, "1", cfg)
	second.joinedWith(t, 1)
	id := "1"
	for _, next := range []string{"2", "1", "3"} {
		successor := startAs(t, here, next, cfg)
		second.joinedWith(t, 2)
		lp.stop()
		lp, id = successor, next
		second.joinedWith(t, 1)
		ear.hears(t, backend, here, id)
	}

	newcomer := startAs(t, elsewhere, "1", host(c, secret, labtest.FreeAddress(t), address))
	for _, l := range []*lagpoller{newcomer, lp, second} {
		l.joinedWith(t, 2)
	}
	ear.hears(t, backend, elsewhere, "1")
	listenOn(t, elsewhere, config.Bus{SecretFile: secret}).hears(t, backend, here, id)
}
