package main

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

// A database or user of the configuration that the primary does not have is in the log, once
// for each configuration that has other ones.
func TestMisspelledNamesAreTold(t *testing.T) {
	c := labtest.Start(t, 1)
	cfg := configure(c)
	cfg.Users = []config.User{{Name: lab.User, Password: lab.Password}, {Name: "aap", Password: "x"}}
	cfg.Databases = []config.Database{{Name: lab.Database}, {Name: "pgpilto", Fencing: config.Relaxed}}
	lp := start(t, runDir(t), cfg)
	const first, second = `databases[1].name \"pgpilto\", users[1].name \"aap\"`, `names="users[1].name \"aap\""`
	eventually(t, "both are told", func() bool { return lp.log.count(first) == 1 })
	corrected := *cfg
	corrected.Databases = []config.Database{{Name: lab.Database, Fencing: config.Relaxed}}
	lp.reloads <- &corrected
	eventually(t, "the one that is left is told", func() bool { return lp.log.count(second) == 1 })
	execute(t, connect(t, c.Primary().SuperDSN()), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgpilot-lagpoller'")
	lp.reloads <- cfg
	eventually(t, "both are told again", func() bool { return lp.log.count(first) == 2 })
	if n := lp.log.count(second); n != 1 {
		t.Errorf("what has not changed was told %d times", n)
	}
}
