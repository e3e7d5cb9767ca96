package engine

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// When the catalog of a database changes, what has run until then as a proven read may have
// been something else: its connections are cleaned before others get them. Here every SELECT
// counts as a read, and one sets something.
func TestConnectionsAreCleanedWhenTheCatalogChanges(t *testing.T) {
	e := startEngine(t, labtest.Start(t, 1))
	poison := wire.AppendQuery(nil, "SELECT set_config('work_mem', '77MB', false)")
	show := wire.AppendQuery(nil, "SELECT current_setting('work_mem')")
	poisoner, other := joinSession(t, e, "poisoner"), joinSession(t, e, "other")
	generation := uint64(0)
	changes := func() {
		generation++
		e.FlushVerdicts(lab.Database, generation)
		onLoop(t, e, func() bool { return true }) // it has been heard
	}
	shows := func(what, want string) {
		t.Helper()
		other.exchange(show)
		if got := other.value(); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	for len(onLoop(t, e, func() []*server { return onReplica(e) })) == 0 {
		poisoner.exchange(poison)
	}
	shows("before", "77MB")
	changes()
	shows("what was idle", "4MB")

	begin, commit := wire.AppendQuery(nil, "BEGIN"), wire.AppendQuery(nil, "COMMIT")
	poisoner.exchange(begin)
	poisoner.exchange(wire.AppendQuery(nil, "VALUES (set_config('work_mem', '77MB', false))"))
	changes()
	poisoner.exchange(commit)
	other.exchange(begin)
	other.exchange(wire.AppendQuery(nil, "VALUES (current_setting('work_mem'))"))
	if got := other.value(); got != "4MB" {
		t.Errorf("what was lent: %s", got)
	}
	other.exchange(commit)
}

// A statement that has been judged before the change and waits for its connection meanwhile is one
// of those.
func TestWhatWaitsWhileTheCatalogChanges(t *testing.T) {
	e := startEngine(t, labtest.Start(t, 1), func(c *config.Config) {
		c.Pool.MaxSize = 1
		c.Pool.AcquireTimeout = config.Duration(time.Hour)
	})
	holder, poisoner, other := joinSession(t, e, "holder"), joinSession(t, e, "poisoner"), joinSession(t, e, "other")
	holder.exchange(wire.AppendQuery(nil, "BEGIN"))
	holder.exchange(wire.AppendQuery(nil, "VALUES (1)"))
	poisoner.send(wire.AppendQuery(nil, "VALUES (set_config('work_mem', '77MB', false))"))
	awaitOnLoop(t, e, "it waits", func() bool {
		return e.pools[poolKey{User: lab.User, Database: lab.Database}].Waiters() == 1
	})
	e.FlushVerdicts(lab.Database, 1)
	holder.exchange(wire.AppendQuery(nil, "COMMIT"))
	poisoner.untilReady()
	other.exchange(wire.AppendQuery(nil, "VALUES (current_setting('work_mem'))"))
	if got := other.value(); got != "4MB" {
		t.Errorf("the next session finds %s", got)
	}
}
