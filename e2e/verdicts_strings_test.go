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
