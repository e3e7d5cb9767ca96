package e2e

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Nobody says that these leave something in the server session. The client has been told
// that they succeeded, so it must find what they left.
func TestWhatNobodyHasJudgedIsNotLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	c, other := r.connect(), r.connect()
	c.must("CREATE SEQUENCE unjudged")
	r.kill(rundir.Classifier, 1)

	c.must(`SELECT pg_advisory_lock(4711) AS "unjudged lock"`)
	c.must(`SELECT set_config('search_path', 'pg_catalog', false) AS "unjudged setting"`)
	c.must(`SELECT 7 AS n INTO TEMP unjudged_table`)
	c.must(`SELECT nextval('public.unjudged') AS "unjudged number"`)
	for range 3 { // so that other sessions have used what the pool has
		if got := other.one(`SELECT pg_try_advisory_lock(4711) AS "another lock"`); got != "f" {
			t.Fatal("a lock that the session has been given is free")
		}
	}
	for sql, want := range map[string]string{
		`SHOW search_path`:                           "pg_catalog",
		`SELECT n AS "unjudged" FROM unjudged_table`: "7",
		`SELECT lastval() AS "unjudged last"`:        "1",
	} {
		if got := c.one(sql); got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
}
