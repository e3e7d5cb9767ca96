package e2e

import (
	"context"
	"testing"

	"github.com/pgpilot/pgpilot/libs/lab"
)

// A session whose settings the primary refuses, since it has lost a role meanwhile, can give
// them up, by either protocol, and goes on.
func TestRefusedSettingsCanBeGivenUp(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	su := direct(t, cluster.Primary())
	su.must("CREATE ROLE lent NOLOGIN")
	r := newRig(t, cluster, narrow(1))
	other := r.connect()
	for _, giveUp := range []string{"RESET ROLE", "SET ROLE NONE", "DISCARD ALL"} {
		for name, extended := range map[string]bool{"simple": false, "extended": true} {
			t.Run(giveUp+" "+name, func(t *testing.T) {
				su.must("GRANT lent TO pgpilot")
				c := r.connect()
				defer c.close()
				c.must("SET work_mem = '3MB'")
				c.must("SET ROLE lent")
				su.must("REVOKE lent FROM pgpilot")
				other.must("SET work_mem = '7MB'")
				other.must("BEGIN; COMMIT") // on the only connection
				const ask = "BEGIN; SELECT current_user"
				if _, err := c.run(ask); sqlstate(err) != "42501" {
					t.Fatalf("without its role: %v", err)
				}
				if extended {
					if _, err := c.conn.ExecParams(context.Background(), giveUp, nil, nil, nil, nil).Close(); err != nil {
						t.Fatal(err)
					}
				} else {
					c.must(giveUp)
				}
				if got := c.one(ask); got != lab.User {
					t.Errorf("it goes on as %s", got)
				}
				want := "3MB"
				if giveUp == "DISCARD ALL" {
					want = "4MB"
				}
				if got := c.one("SHOW work_mem"); got != want {
					t.Errorf("work_mem is %s, want %s", got, want)
				}
			})
		}
	}
}
