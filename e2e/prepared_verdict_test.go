package e2e

import "testing"

// A prepared statement lives long: when the catalog changes, the verdict it was given
// when it was prepared holds no more.
func TestPreparedStatementsFollowTheCatalog(t *testing.T) {
	r := newRig(t, newCluster(t), nil)
	c := r.connect()
	c.must("CREATE FUNCTION f() RETURNS int LANGUAGE sql STABLE AS 'SELECT 1'; CREATE VIEW v AS SELECT f() AS n")
	r.caughtUp()
	if _, err := c.conn.Prepare(timeout(t), "p", "SELECT n FROM v", nil); err != nil {
		t.Fatal(err)
	}
	role := func() string {
		t.Helper()
		if res := c.conn.ExecPrepared(timeout(t), "p", nil, nil, nil).Read(); res.Err != nil {
			t.Fatal(res.Err)
		}
		return c.route().Role
	}
	r.until("the prepared statement reads", func() bool { return role() == "replica" })
	other := r.connect()
	other.must("ALTER FUNCTION f() VOLATILE")
	r.until("it is a write when its function is volatile", func() bool { return role() == "primary" })
	other.must("ALTER FUNCTION f() STABLE")
	r.until("it reads again", func() bool { return role() == "replica" })
}
