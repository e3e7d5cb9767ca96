package main

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

// The news of a primary identify what is stored for roles and databases: the same as long as
// that is the same, and nothing, with a word in the log, where the monitor may not read it.
func TestNewsIdentifyWhatIsStored(t *testing.T) {
	c := labtest.Start(t, 1)
	lp := start(t, runDir(t), configure(c))
	e := listen(t, lp.dir)
	su := connect(t, c.Primary().SuperDSN())
	settingsAfter := func(what, sql string) string {
		t.Helper()
		if sql != "" {
			execute(t, su, sql)
		}
		floor := write(t, su)
		return e.lag(t, "primary", what, func(l bus.Lag) bool { return healthy(l) && l.InsertLSN >= floor && l.Settings != "" }).Settings
	}
	was := settingsAfter("nothing has been stored", "")
	if again := settingsAfter("nothing else has been stored", ""); again != was {
		t.Errorf("what is stored is %q, then %q", was, again)
	}
	changed := map[string]string{was: "nothing"}
	for _, sql := range []string{
		"ALTER ROLE " + lab.User + " SET work_mem = '1MB'", "ALTER ROLE " + lab.User + " SET work_mem = '2MB'", "ALTER DATABASE " + lab.Database + " SET work_mem = '2MB'",
		"ALTER ROLE " + lab.User + " IN DATABASE " + lab.Database + " SET work_mem = '2MB'", "ALTER ROLE ALL SET work_mem = '2MB'",
	} {
		now := settingsAfter(sql, sql)
		if same, ok := changed[now]; ok {
			t.Errorf("%q is what is stored after %s as after %s", now, sql, same)
		}
		changed[now] = sql
	}
	if l := e.lag(t, c.Replica(1).Name, "it answers", caughtUp); l.Settings != "" {
		t.Errorf("a replica tells of what is stored: %+v", l)
	}

	execute(t, su, "REVOKE SELECT ON pg_catalog.pg_db_role_setting FROM PUBLIC")
	execute(t, su, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgpilot-lagpoller'")
	e.lag(t, "primary", "what the monitor may not read", func(l bus.Lag) bool { return healthy(l) && l.Settings == "" })
	eventually(t, "the log says so", func() bool { return lp.log.count("cannot read pg_db_role_setting") == 1 })
}
