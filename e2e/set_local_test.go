package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// byPostGraphile is how PostGraphile says who its user is.
const byPostGraphile = "select set_config(el->>0, el->>1, true) from json_array_elements($1::json) el"

// kept gives what the server process behind the only connection of the pool has been left with:
// its statements with the time at which they were prepared, and what it has run last.
func kept(t *testing.T, su *client) (last string) {
	t.Helper()
	return su.one("SELECT query FROM pg_stat_activity WHERE usename = 'pgpilot' AND query ~* '^(commit|discard|reset|deallocate)'")
}

// What ends with its transaction costs nothing behind it, however it is set and whatever its value
// is: the connection keeps its prepared statements, is not cleaned, and the session is not bound
// to it (rules 14, 20, 21).
func TestLocalSettingsCostNothingAfterwards(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	su := direct(t, cluster.Primary())
	su.must(`CREATE TABLE notes (owner text, body text); INSERT INTO notes VALUES ('somebody', 'x'); GRANT ALL ON notes TO pgpilot;
		CREATE FUNCTION becomes(who text) RETURNS void LANGUAGE plpgsql AS $$BEGIN PERFORM set_config('app.who', who, true); END$$;
		CREATE FUNCTION goes(path text) RETURNS text LANGUAGE plpgsql AS $$BEGIN RETURN set_config('search_path', path, true); END$$`)
	r := newRig(t, cluster, narrow(1))
	r.caughtUp()
	const uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	claims := strings.Repeat("c", 9000)
	for name, set := range map[string]struct {
		sql    string
		params []string
	}{
		"PostGraphile":                {byPostGraphile, []string{`[["app.who", "somebody"], ["search_path", "public"], ["role", "pgpilot"]]`}},
		"of a computed value":         {"SELECT set_config('app.who', $1::uuid::text, true)", []string{uuid}},
		"of another setting's":        {"SELECT set_config('app.who', current_setting('work_mem'), true)", nil},
		"besides other columns":       {"SELECT set_config('app.who', $1, true), count(*), now() FROM notes", []string{"somebody"}},
		"in FROM":                     {"SELECT s FROM set_config('app.who', $1, true) s", []string{"somebody"}},
		"in WITH, of a write":         {"WITH u AS (SELECT set_config('app.who', 'somebody', true) AS s) INSERT INTO notes SELECT s, 'y' FROM u", nil},
		"a path":                      {"SELECT set_config('search_path', $1::name::text, true)", []string{"public"}},
		"a role, computed":            {"SELECT set_config('role', current_user, true)", nil},
		"in a function":               {"SELECT becomes($1)", []string{"somebody"}},
		"a path, in a function":       {"SELECT goes($1)", []string{"public"}},
		"SET LOCAL of a long value":   {"SET LOCAL app.claims = '" + claims + "'", nil},
		"SET LOCAL of an encoding":    {"SET LOCAL client_encoding = 'UTF8'", nil},
		"SET LOCAL of temporary ones": {"SET LOCAL search_path = public, pg_temp", nil},
	} {
		for _, protocol := range []string{"simple", "extended"} {
			t.Run(name+", "+protocol, func(t *testing.T) {
				c := r.connect()
				c.t = t
				c.must("DISCARD ALL")
				prepared := func() { // a write, so that it runs on the primary
					t.Helper()
					if res := c.conn.ExecPrepared(timeout(t), "stays", [][]byte{[]byte("nobody")}, nil, nil).Read(); res.Err != nil {
						t.Error(res.Err)
					}
				}
				if _, err := c.conn.Prepare(timeout(t), "stays", "UPDATE notes SET body = body WHERE owner = $1", nil); err != nil {
					t.Fatal(err)
				}
				prepared()
				has := "SELECT name || prepare_time FROM pg_prepared_statements WHERE statement LIKE 'UPDATE notes%'"
				c.must("BEGIN")
				before := c.one(has)
				if protocol == "extended" {
					if _, err := c.boundTo(set.sql, set.params...); err != nil {
						t.Error(err)
					}
				} else {
					sql := set.sql
					for i, p := range set.params {
						sql = strings.ReplaceAll(sql, fmt.Sprintf("$%d", i+1), "'"+p+"'")
					}
					c.must(sql)
				}
				prepared()
				c.must("INSERT INTO notes VALUES ('nobody', 'z')")
				c.must("COMMIT")
				if last := kept(t, su); last != "COMMIT" {
					t.Errorf("the connection has run %s behind the transaction", last)
				}
				if why := c.boundBy(); why != "" {
					t.Errorf("the session is bound by %s", why)
				}
				prepared()
				c.must("BEGIN")
				if after := c.one(has); after != before {
					t.Errorf("of what was prepared as %s there is %s", before, after)
				}
				c.must("COMMIT")
			})
		}
	}
}

// Sessions that say in PostGraphile's way who their user is share what they have prepared, in as
// far as their users have the same role (rule 14).
func TestStatementsOfPostGraphileAreShared(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	direct(t, cluster.Primary()).must(`CREATE ROLE reader; CREATE ROLE writer; GRANT reader, writer TO pgpilot;
		CREATE TABLE notes (owner text, body text); GRANT ALL ON notes TO reader, writer`)
	r := newRig(t, cluster, narrow(1))
	const text = "UPDATE notes SET body = $1 WHERE owner = current_setting('app.who')"
	for i, role := range []string{"reader", "reader", "writer", "reader"} {
		c := r.connect()
		c.must("BEGIN")
		if _, err := c.boundTo(byPostGraphile, fmt.Sprintf(`[["role", %q], ["app.who", "user%d"]]`, role, i)); err != nil {
			t.Fatal(err)
		}
		if got := c.one("SELECT current_user || current_setting('app.who')"); got != fmt.Sprintf("%suser%d", role, i) {
			t.Errorf("it is %s", got)
		}
		if _, err := c.conn.Prepare(timeout(t), "q", text, nil); err != nil {
			t.Fatal(err)
		}
		if res := c.conn.ExecPrepared(timeout(t), "q", [][]byte{[]byte("x")}, nil, nil).Read(); res.Err != nil {
			t.Error(res.Err)
		}
		c.must("COMMIT")
		if why := c.boundBy(); why != "" {
			t.Errorf("the session is bound by %s", why)
		}
	}
	c := r.connect()
	c.must("BEGIN")
	if n := c.one("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'UPDATE notes%'"); n != "2" {
		t.Errorf("the connection has the statement of two roles %s times", n)
	}
}

// The same in one string with other statements, also where that is a long one.
func TestLocalSettingsInStrings(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	su := direct(t, cluster.Primary())
	su.must(`CREATE TABLE notes (owner text, body text); GRANT ALL ON notes TO pgpilot`)
	r := newRig(t, cluster, narrow(1))
	c := r.connect()
	long := strings.Repeat("x", 20<<10)
	for name, sql := range map[string]string{
		"SET LOCAL":                  "BEGIN; SET LOCAL app.who = 'a'; INSERT INTO notes VALUES ('a', 'b'); COMMIT",
		"SET LOCAL and a long value": "BEGIN; SET LOCAL app.who = 'a'; INSERT INTO notes VALUES ('a', '" + long + "'); COMMIT",
		"a long SET LOCAL":           "BEGIN; SET LOCAL app.who = '" + long + "'; INSERT INTO notes VALUES ('a', 'b'); COMMIT",
		"set_config":                 "BEGIN; SELECT set_config('app.who', 'a', true); INSERT INTO notes VALUES ('a', 'b'); COMMIT",
		"set_config and a long one":  "BEGIN; SELECT set_config('search_path', 'public', true) FROM notes LIMIT 1; INSERT INTO notes VALUES ('a', '" + long + "'); COMMIT",
	} {
		c.must(sql)
		if why := c.boundBy(); why != "" {
			t.Errorf("%s: the session is bound by %s", name, why)
			c.must("DISCARD ALL")
		}
		if last := su.must("SELECT left(query, 20) FROM pg_stat_activity WHERE usename = 'pgpilot' AND left(query, 20) ~* '^(begin|discard|reset|deallocate)'"); len(last) != 1 || !strings.HasPrefix(last[0][0], "BEGIN") {
			t.Errorf("%s: the connection has run %s behind the string", name, last)
		}
	}
}

// What a role could set that was taken for the transaction can be set again without it, where
// everybody may (rule 20).
func TestSettingsMadeAsALocalRole(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	direct(t, cluster.Primary()).must("CREATE ROLE helper; GRANT helper TO pgpilot")
	r := newRig(t, cluster, narrow(1))
	c, other := r.connect(), r.connect()
	c.must("BEGIN; SET LOCAL ROLE helper; SET app.who = 'somebody'; COMMIT")
	if why := c.boundBy(); why != "" {
		t.Errorf("the session is bound by %s", why)
	}
	other.must("SET app.who = 'other'")
	other.must("BEGIN; SELECT 1; COMMIT")
	if got := c.one("BEGIN; SELECT current_setting('app.who') || session_user || current_user"); got != "somebodypgpilotpgpilot" {
		t.Errorf("it has %s", got)
	}
	c.must("COMMIT")
	c.must("BEGIN; SET LOCAL ROLE helper; SET plpgsql.extra_warnings = 'none'; COMMIT")
	if why := c.boundBy(); why == "" {
		t.Error("a setting of an extension's, which may need the role, does not bind the session")
	}
}
