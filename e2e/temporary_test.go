package e2e

import "testing"

// A table that is made where temporary ones come first in the search_path is its session's
// alone, however that has come about: the next session gets a connection without it.
func TestTemporaryTablesByPathAreOnesOwn(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	direct(t, cluster.Primary()).must("CREATE TABLE x (n int); INSERT INTO x VALUES (1); GRANT ALL ON x TO pgpilot")
	r := newRig(t, cluster, narrow(1))
	r.caughtUp()
	const set, make = "SET LOCAL search_path = pg_temp, public", "CREATE TABLE x (n int); INSERT INTO x VALUES (2)"
	for name, c := range map[string]struct {
		options string
		leave   []string
	}{
		"SET LOCAL":                    {"", []string{"BEGIN", set, make, "COMMIT"}},
		"SET LOCAL in one string":      {"", []string{"BEGIN; " + set + ";" + make + "; COMMIT"}},
		"SET LOCAL behind a statement": {"", []string{"BEGIN", "SELECT 1; " + set, make, "COMMIT"}},
		"set_config among others":      {"", []string{"BEGIN", "SELECT set_config('search_path', 'pg_temp, public', true) FROM (VALUES (1)) v", make, "COMMIT"}},
		"at startup":                   {"options='-c search_path=pg_temp,public'", []string{make}},
	} {
		t.Run(name, func(t *testing.T) {
			first, err := r.dial(c.options)
			if err != nil {
				t.Fatal(err)
			}
			for _, sql := range c.leave {
				first.must(sql)
			}
			if c.options != "" {
				if got := first.one("SELECT n FROM x"); got != "2" {
					t.Errorf("the session itself finds %s", got)
				}
			}
			first.close()
			next, err := r.dial(c.options)
			if err != nil {
				t.Fatal(err)
			}
			defer next.close()
			// In a transaction it is asked on the primary, where it was left.
			if got := next.one("BEGIN; SELECT n FROM x"); got != "1" {
				t.Errorf("the next session finds %s", got)
			}
		})
	}
}
