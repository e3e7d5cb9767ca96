package e2e

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// The former primary is back as a standby, far behind, before anybody has told the
// router that there is another primary: it must not be read in the primary's place.
func TestADemotedPrimaryIsNotReadAsThePrimary(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) {
		c.Pool.AcquireTimeout, c.Failover.Wait = config.Duration(500*time.Millisecond), config.Duration(500*time.Millisecond)
	})
	former := cluster.Primary()
	su := direct(t, former)
	su.must("CREATE TABLE register AS SELECT 0 AS v; ALTER TABLE register OWNER TO pgpilot")
	r.caughtUp()
	// As a standby it will stand still at the first commit behind the backup.
	su.must("ALTER SYSTEM SET recovery_min_apply_delay = '1h'")
	if err := cluster.TakeBackup(timeout(t)); err != nil {
		t.Fatal(err)
	}
	su.must("ALTER SYSTEM RESET recovery_min_apply_delay")
	c := r.connect()
	r.until("the session has written", func() bool { // which needs a connection within half a second
		_, err := c.run("UPDATE register SET v = 1")
		return err == nil
	})
	r.caughtUp()

	r.kill(rundir.Lagpoller, 1)
	if err := former.Stop(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Promote(timeout(t), 1); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Rebuild(timeout(t), 0); err != nil {
		t.Fatal(err)
	}
	if got := direct(t, former).one("SELECT v FROM register"); got != "0" {
		t.Fatalf("the former primary shows %s: nothing is proven", got)
	}
	for range 3 {
		c.fails("BEGIN; SELECT v FROM register", "57P03")
	}
	r.start(rundir.Lagpoller, 1)
	r.until("the new primary takes writes", func() bool {
		_, err := c.run("UPDATE register SET v = 2")
		return err == nil
	})
	if got := c.one("SELECT v FROM register"); got != "2" {
		t.Errorf("the session reads %s after it has written 2", got)
	}
}
