package e2e

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/lab"
)

// What is said of a role holds for connections made from then on, which may serve sessions
// that were there before: the strings of these are read otherwise, too, and so are not
// looked into any more.
func TestOpenSessionsHearThatBackslashesEscape(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	r.awaitReplicas(cluster.Replicas()...)
	const text = `SELECT '\' AS x, 'y'`
	c := r.connect()
	r.readsOnReplica(c, text)
	su := direct(t, cluster.Primary())
	su.must("ALTER ROLE " + lab.User + " SET standard_conforming_strings = off")
	su.must("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
	r.until("reads of the session that was there are not judged any more", func() bool {
		_, _ = c.run("CREATE TABLE IF NOT EXISTS passing (a int)") // needs a connection to the primary, which may have been ended
		c.run("SELECT 'x'")
		// The first that is not judged may have ended on the primary for the sake of the fence;
		// since nobody knows what it did, those behind it find the session pinned.
		reason := c.route().Reason
		return reason == "write" || reason == "pinned"
	})
}

// What a session has set keeps its value on a connection whose strings are read otherwise, and
// no part of it is run there.
func TestSettingsWhereBackslashesEscape(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	su := direct(t, cluster.Primary())
	su.must("CREATE ROLE strong NOLOGIN; GRANT strong TO " + lab.User)
	r := newRig(t, cluster, narrow(2))
	r.caughtUp()
	const value = `\'; SET ROLE strong; --`
	bound, written := r.connect(), r.connect()
	if err := bound.conn.ExecParams(t.Context(), "SELECT set_config('app.who', $1, false)", [][]byte{[]byte(value)}, nil, nil, nil).Read().Err; err != nil {
		t.Fatal(err)
	}
	written.must(`SET app.who = '\''; SET ROLE strong; --'`)
	su.must("ALTER ROLE " + lab.User + " SET standard_conforming_strings = off")
	su.must("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
	for name, c := range map[string]*client{"bound": bound, "written": written} {
		var rows [][]string
		r.until(name+": a new connection serves it", func() (ok bool) {
			var err error
			rows, err = c.run("BEGIN; SELECT current_setting('standard_conforming_strings'), current_user, current_setting('app.who')")
			_, _ = c.run("ROLLBACK")
			return err == nil && len(rows) == 1 && rows[0][0] == "off"
		})
		if rows[0][1] != lab.User || rows[0][2] != value {
			t.Errorf("%s: it is %s, and app.who is %s", name, rows[0][1], rows[0][2])
		}
	}
}
