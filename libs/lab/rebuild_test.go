package lab_test

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

func TestRebuild(t *testing.T) {
	c := labtest.Start(t, 2)
	ctx := t.Context()
	exec(t, c.Primary(), "CREATE TABLE rebuilt (n int)")
	must(t, c.TakeBackup(ctx))
	exec(t, c.Primary(), "INSERT INTO rebuilt VALUES (1)")
	if err := c.Rebuild(ctx, 0); err == nil {
		t.Error("the primary was rebuilt from itself")
	}
	must(t, c.Rebuild(ctx, 1)) // from the older backup
	must(t, c.WaitCaughtUp(ctx))
	if n := query[int](t, c.Replica(1), "SELECT count(*) FROM rebuilt"); n != 1 {
		t.Errorf("the rebuilt replica has %d rows", n)
	}

	// After a failover the former primary comes back as a replica.
	former := c.Primary()
	must(t, former.Stop(ctx))
	must(t, c.Promote(ctx, 2))
	exec(t, c.Primary(), "INSERT INTO rebuilt VALUES (2)")
	must(t, c.Rebuild(ctx, 0))
	must(t, c.WaitCaughtUp(ctx))
	if n := query[int](t, former, "SELECT count(*) FROM rebuilt"); n != 2 {
		t.Errorf("the former primary has %d rows", n)
	}
	// And goes on as one after the next.
	must(t, c.Primary().Stop(ctx))
	must(t, c.Promote(ctx, 1))
	exec(t, c.Primary(), "INSERT INTO rebuilt VALUES (3)")
	must(t, c.WaitCaughtUp(ctx))
	if n := query[int](t, former, "SELECT count(*) FROM rebuilt"); n != 3 {
		t.Errorf("the former primary has %d rows", n)
	}
	must(t, c.Rebuild(ctx, 2))
	if note, _ := c.FormerNote(); note != "" {
		t.Errorf("it is no former primary any more: %s", note)
	}
}
