package e2e

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// Once a session has what ALTER ROLE … SET and ALTER DATABASE … SET have stored, every one has
// it with each statement, on the primary as on the replicas. A transaction goes on with what it
// has begun with, and so does a session that is bound to its connection.
func TestSettingsOfRolesAreThoseOfAllConnections(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	su := direct(t, cluster.Primary())
	for _, name := range []string{"first", "role", "base", "elsewhere"} {
		su.must("CREATE SCHEMA " + name + "; CREATE TABLE " + name + ".who AS SELECT '" + name + "' AS name")
		su.must("GRANT USAGE ON SCHEMA " + name + " TO " + lab.User + "; GRANT SELECT ON " + name + ".who TO " + lab.User)
	}
	su.must("ALTER DATABASE " + lab.Database + " SET search_path = first")
	su.must("ALTER DATABASE " + lab.Database + " OWNER TO " + lab.User)
	r := rigOf(t, stacktest.Options{Lab: cluster, Routers: 1}, narrow(4))
	r.awaitReplicas(cluster.Replicas()...)
	const onReplica, onPrimary = "SELECT name FROM who", "/* pgpilot: primary */ SELECT name FROM who"
	old, holder, bound := r.connect(), r.connect(), r.connect()
	bound.must("CREATE TEMP TABLE own (a int)")
	was := "first"
	for _, c := range []struct {
		want  string
		alter func()
	}{
		{"base", func() { old.must("ALTER DATABASE " + lab.Database + " SET search_path = base") }},
		{"role", func() { old.must("ALTER USER " + lab.User + " SET search_path = role") }},
		// Nobody makes a connection, so that only the lagpoller can tell.
		{"elsewhere", func() { su.must("ALTER ROLE " + lab.User + " SET search_path = elsewhere") }},
	} {
		r.caughtUp()
		for range 2 {
			r.readsOnReplica(old, onReplica)
		}
		holder.must("BEGIN")
		if got := holder.one(onPrimary); got != was {
			t.Errorf("the transaction begins with %s, want %s", got, was)
		}
		c.alter()
		r.until(c.want+" is seen", func() bool {
			fresh := r.connect()
			defer fresh.close()
			return fresh.one(onPrimary) == c.want
		})
		read := false
		for i := 0; i < 10 || !read; i++ {
			fresh := r.connect()
			for _, s := range []*client{old, fresh} {
				for _, text := range []string{onPrimary, onReplica} {
					got := s.one(text)
					role := s.route().Role
					read = read || role == "replica"
					if got != c.want {
						t.Fatalf("on the %s %s, want %s", role, got, c.want)
					}
				}
			}
			fresh.close()
		}
		if got := holder.one(onPrimary); got != was {
			t.Errorf("in the transaction %s, want %s", got, was)
		}
		holder.must("COMMIT")
		if got := holder.one(onPrimary); got != c.want {
			t.Errorf("behind the transaction %s, want %s", got, c.want)
		}
		was = c.want
	}
	if got := bound.one(onPrimary); got != "first" {
		t.Errorf("the session that is bound to its connection has %s, want first", got)
	}
}
