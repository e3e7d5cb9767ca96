package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// The only lagpoller is started anew while the former primary runs as it was. It hears of
// that one first, and does not name it: nothing of what runs on the promoted server is lost.
func TestALagpollerThatStartsBesideTheFormerPrimary(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	proxies, behind := behindProxies(t, cluster)
	former, promoted := cluster.Members()[0], cluster.Members()[1]
	r := newRig(t, cluster, func(c *config.Config) {
		behind(c)
		c.Failover.Wait = config.Duration(patience)
		c.Health.Timeout = config.Duration(10 * time.Second)
	})
	r.connect().must("CREATE TABLE kept (id int)")
	r.caughtUp()
	if err := former.Kill(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Promote(timeout(t), 1); err != nil {
		t.Fatal(err)
	}
	inside := r.connect()
	inside.must("INSERT INTO kept VALUES (1)")
	if err := former.Start(timeout(t)); err != nil {
		t.Fatal(err)
	}
	r.until("the former primary is told apart", func() bool { return r.metric("pgpilot_backend_superseded", "backend", former.Name) == 1 })
	inside.must("BEGIN; INSERT INTO kept VALUES (2)")
	before := r.metric("pgpilot_router_primary_changes_total")
	r.kill(rundir.Lagpoller, 1)
	for name, p := range proxies {
		if name != former.Name {
			p.Delay(200 * time.Millisecond)
		}
	}
	r.start(rundir.Lagpoller, 1)
	r.until("the former primary is told apart again", func() bool { return r.metric("pgpilot_backend_superseded", "backend", former.Name) == 1 })
	if _, err := inside.run("INSERT INTO kept VALUES (3); COMMIT"); err != nil {
		t.Errorf("a transaction on the promoted server: %v", err)
	}
	if n := r.metric("pgpilot_router_primary_changes_total"); n != before {
		t.Errorf("the primary has changed %v times", n-before)
	}
	if got := direct(t, promoted).one("SELECT count(*) FROM kept"); got != "3" {
		t.Errorf("the promoted server has %s rows of 3", got)
	}
}

// After a failover the two addresses are swapped in the configuration, and one service takes it
// up before another: what a name says there is not what it says here, and nothing is written to
// the former primary.
func TestSwappedAddresses(t *testing.T) {
	t.Parallel()
	for name, lagpollerLags := range map[string]bool{"the router first": true, "the lagpoller first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t)
			former, promoted := cluster.Members()[0], cluster.Members()[1]
			r := newRig(t, cluster, func(c *config.Config) { c.Failover.Wait = config.Duration(time.Second) })
			swap := func(c *config.Config) {
				c.Replicas = slices.Clone(c.Replicas)
				c.Primary.Address, c.Replicas[0].Address = r.cfg.Replicas[0].Address, r.cfg.Primary.Address
			}
			r.connect().must("CREATE TABLE kept (id int)")
			r.caughtUp()
			if err := former.Kill(timeout(t)); err != nil {
				t.Fatal(err)
			}
			if err := cluster.Promote(timeout(t), 1); err != nil {
				t.Fatal(err)
			}
			write := func() error {
				c := r.connect()
				defer c.close()
				_, err := c.run("INSERT INTO kept VALUES (1)")
				return err
			}
			r.until("writes have moved", func() bool { return write() == nil })
			if err := former.Start(timeout(t)); err != nil {
				t.Fatal(err)
			}
			r.until("the former primary is told apart", func() bool { return r.metric("pgpilot_backend_superseded", "backend", former.Name) == 1 })

			// The stack's lagpoller makes way for one that has the other file.
			h := r.hearAll()
			if lagpollerLags {
				r.startOther("other", func(*config.Config) {})
			} else {
				r.startOther("other", swap)
			}
			h.all("other")
			if err := r.Service(rundir.Lagpoller, 1).Terminate(timeout(t)); err != nil {
				t.Fatal(err)
			}
			if lagpollerLags {
				r.configure(swap)
				r.until("the router has the new configuration", func() bool {
					return r.metric("pgpilot_config_reloads_total", "service", "router", "result", "ok") == 1
				})
			}
			for range 2 { // for longer than the lagpoller's interval
				r.connected("there is a bus", 2)
				h.all("other")
				_ = write() // it may wait in vain
			}
			if got := direct(t, former).one("SELECT count(*) FROM kept"); got != "0" {
				t.Errorf("the former primary has %s rows of the promoted one's", got)
			}
			if lagpollerLags {
				r.start(rundir.Lagpoller, 1)
			}
			r.until("writes are taken", func() bool { return write() == nil })
			if got := direct(t, former).one("SELECT count(*) FROM kept"); got != "0" {
				t.Errorf("the former primary has %s rows of the promoted one's", got)
			}
			if got := direct(t, promoted).one("SELECT count(*) FROM kept"); got == "0" {
				t.Error("the promoted server has none")
			}
		})
	}
}
