package e2e

import (
	"strings"
	"testing"
)

// A table that is made where temporary ones come first in the search_path is its session's
// alone, however that has come about: the next session gets a connection without it (rule 21).
func TestTemporaryTablesByPathAreOnesOwn(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	direct(t, cluster.Primary()).must(`CREATE TABLE x (n int); INSERT INTO x VALUES (1); GRANT ALL ON x TO pgpilot;
		CREATE TABLE fires (n int); GRANT ALL ON fires TO pgpilot;
		CREATE FUNCTION goes() RETURNS text LANGUAGE plpgsql AS $$BEGIN RETURN set_config('search_path', 'pg_temp, public', true); END$$;
		CREATE FUNCTION goes_in_sql() RETURNS text LANGUAGE sql AS $$SELECT set_config('search_path', 'pg_temp, public', true)$$;
		CREATE FUNCTION goes_by_set() RETURNS void LANGUAGE plpgsql AS $$BEGIN SET LOCAL search_path = pg_temp, public; END$$;
		CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM goes(); RETURN NEW; END$$;
		CREATE TRIGGER fires BEFORE INSERT ON fires FOR EACH ROW EXECUTE FUNCTION fired();
		CREATE FUNCTION makes() RETURNS void LANGUAGE sql SET search_path = pg_temp, public AS $$CREATE TABLE x (n int)$$;
		CREATE FUNCTION makes_here() RETURNS void LANGUAGE sql AS $$CREATE TABLE x (n int)$$`)
	r := newRig(t, cluster, narrow(1))
	r.caughtUp()
	const set, make = "SET LOCAL search_path = pg_temp, public", "CREATE TABLE x (n int); INSERT INTO x VALUES (2)"
	const unseen = "its own function has made it, which nobody sees"
	for name, c := range map[string]struct {
		options string
		leave   []string // those that begin with '|' in the extended protocol
		lost    string   // why the session itself does not find it
	}{
		"SET LOCAL":                    {"", []string{"BEGIN", set, make, "COMMIT"}, ""},
		"SET LOCAL in one string":      {"", []string{"BEGIN; " + set + ";" + make + "; COMMIT"}, ""},
		"SET LOCAL behind a statement": {"", []string{"BEGIN", "SELECT 1; " + set, make, "COMMIT"}, ""},
		"SET LOCAL in a long string":   {"", []string{"BEGIN; SELECT '" + strings.Repeat("x", 20000) + "'; " + set + ";" + make + "; COMMIT"}, ""},
		"extended":                     {"", []string{"BEGIN", "|" + set, "|CREATE TABLE x AS SELECT 2 AS n", "COMMIT"}, ""},
		"set_config":                   {"", []string{"BEGIN", "SELECT set_config('search_path', 'pg_temp, public', true)", make, "COMMIT"}, ""},
		"set_config among others":      {"", []string{"BEGIN", "SELECT set_config('search_path', 'pg_temp, public', true) FROM (VALUES (1)) v", make, "COMMIT"}, ""},
		"set_config in a string":       {"", []string{"BEGIN; SELECT set_config('search_path', 'pg_temp, public', true); " + make + "; COMMIT"}, ""},
		"of a computed value":          {"", []string{"BEGIN", "|SELECT set_config('search_path', 'pg_temp'::name::text, true)", "|SELECT 2 AS n INTO x", "COMMIT"}, ""},
		"of a computed name":           {"", []string{"BEGIN", "|SELECT set_config('search_' || 'path', 'pg_temp', true)", "|CREATE TABLE x AS VALUES (2)", "|ALTER TABLE x RENAME column1 TO n", "COMMIT"}, ""},
		"as PostGraphile":              {"", []string{"BEGIN", strings.ReplaceAll(byPostGraphile, "$1", `'[["search_path", "pg_temp, public"]]'`), make, "COMMIT"}, ""},
		"in a function":                {"", []string{"BEGIN", "SELECT goes()", make, "COMMIT"}, ""},
		"in a function in SQL":         {"", []string{"BEGIN", "|SELECT goes_in_sql()", make, "COMMIT"}, ""},
		"by SET LOCAL in a function":   {"", []string{"BEGIN", "SELECT goes_by_set()", make, "COMMIT"}, ""},
		"in a trigger":                 {"", []string{"BEGIN", "INSERT INTO fires VALUES (1)", make, "COMMIT"}, ""},
		"in a DO":                      {"", []string{"BEGIN", "DO $$BEGIN PERFORM set_config('search_path', 'pg_temp, public', true); END$$", make, "COMMIT"}, ""},
		"in a function with the path":  {"", []string{"SELECT makes()"}, unseen},
		"in a function behind it":      {"", []string{"BEGIN", set, "SELECT makes_here()", "COMMIT"}, unseen},
		"at startup":                   {"options='-c search_path=pg_temp,public'", []string{make}, ""},
		"at startup, behind another":   {"options='-c search_path=nowhere,pg_temp,public'", []string{make}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			first, err := r.dial(c.options)
			if err != nil {
				t.Fatal(err)
			}
			first.t = t
			for _, sql := range c.leave {
				if extended, is := strings.CutPrefix(sql, "|"); is {
					if _, err := first.boundTo(extended); err != nil {
						t.Fatalf("%s: %v", extended, err)
					}
					continue
				}
				first.must(sql)
			}
			if c.lost == "" {
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
			next.t = t
			// In a transaction it is asked on the primary, where it was left.
			if got := next.one("BEGIN; SELECT n FROM x"); got != "1" {
				t.Errorf("the next session finds %s", got)
			}
		})
	}
}

// A search_path that begins with temporary tables, or names them at its end, binds a session only
// when something is made that may be one of them.
func TestPathsWithTemporaryTablesBindOnlyWhatMakesSome(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	direct(t, cluster.Primary()).must("CREATE TABLE x (n int); GRANT ALL ON x TO pgpilot; GRANT CREATE ON SCHEMA public TO pgpilot")
	r := newRig(t, cluster, nil)
	for path, binds := range map[string]bool{"pg_temp,public": true, "public,pg_temp": true, "pg_catalog,public,pg_temp": false} {
		c, err := r.dial("options='-c search_path=" + path + "'")
		if err != nil {
			t.Fatal(err)
		}
		c.must("INSERT INTO x VALUES (1)")
		c.must("BEGIN; UPDATE x SET n = 2; COMMIT")
		if why := c.boundBy(); why != "" {
			t.Errorf("with %s, a write binds the session: %s", path, why)
		}
		c.must("CREATE TABLE IF NOT EXISTS public.other (n int)")
		if why := c.boundBy(); (why != "") != binds {
			t.Errorf("with %s, a table that is made binds the session: %q", path, why)
		}
	}
}
