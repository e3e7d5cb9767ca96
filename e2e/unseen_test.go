package e2e

import (
	"context"
	"strconv"
	"strings"
	"testing"
)

// What a write runs without saying so (triggers, defaults, rules, policies, checks,
// indexes, functions it calls) may leave something in the server session, which the
// next client with the same connection must not find.
func TestNothingThatAWriteRunsUnseenLeaks(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	direct(t, cluster.Primary()).must("CREATE ROLE other NOLOGIN; GRANT other TO pgpilot; GRANT ALL ON SCHEMA public TO pgpilot, other")
	r := newRig(t, cluster, narrow(1))
	// f returns its argument and leaves a setting; lies says that it is immutable. @ is the
	// number of the case: what was known of another one's names must not matter.
	const functions = `
CREATE FUNCTION f@(int) RETURNS int LANGUAGE plpgsql AS $$BEGIN EXECUTE 'SELECT set_' || 'config(''a.b'', ''left'', false)'; RETURN $1; END$$;
CREATE FUNCTION lies@(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN EXECUTE 'SELECT set_' || 'config(''a.b'', ''left'', false)'; RETURN $1; END$$;
CREATE FUNCTION fires@() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM f@(1); RETURN NEW; END$$;`
	const setting = "SELECT coalesce(current_setting('a.b', true), '')"
	number := 0
	for name, c := range map[string]struct{ prepare, leave, look, want string }{
		"trigger": {"CREATE TABLE t@ (n int); CREATE TRIGGER x AFTER INSERT ON t@ FOR EACH ROW EXECUTE FUNCTION fires@()",
			"INSERT INTO t@ VALUES (1)", setting, ""},
		"trigger of a statement": {"CREATE TABLE t@ (n int); CREATE TRIGGER x AFTER DELETE ON t@ FOR EACH STATEMENT EXECUTE FUNCTION fires@()",
			"DELETE FROM t@", setting, ""},
		"trigger of TRUNCATE": {"CREATE TABLE t@ (n int); CREATE TRIGGER x AFTER TRUNCATE ON t@ EXECUTE FUNCTION fires@()",
			"TRUNCATE t@", setting, ""},
		"role in a trigger": {`CREATE TABLE t@ (n int);
			CREATE FUNCTION becomes@() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN SET ROLE other; RETURN NEW; END$$;
			CREATE TRIGGER x BEFORE INSERT ON t@ FOR EACH ROW EXECUTE FUNCTION becomes@()`,
			"INSERT INTO t@ VALUES (1)", "SELECT current_user", "pgpilot"},
		"lock in a trigger": {`CREATE TABLE t@ (n int);
			CREATE FUNCTION locks@() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_advisory_lock(7); RETURN NEW; END$$;
			CREATE TRIGGER x BEFORE INSERT ON t@ FOR EACH ROW EXECUTE FUNCTION locks@()`,
			"INSERT INTO t@ VALUES (1)", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()", "0"},
		"trigger of another table, by a foreign key": {`CREATE TABLE p@ (n int PRIMARY KEY); CREATE TABLE t@ (n int REFERENCES p@ ON DELETE CASCADE);
			INSERT INTO p@ VALUES (1); INSERT INTO t@ VALUES (1);
			CREATE TRIGGER x BEFORE DELETE ON t@ FOR EACH ROW EXECUTE FUNCTION fires@()`,
			"DELETE FROM p@", setting, ""},
		"trigger of another table, by a trigger": {`CREATE TABLE log@ (n int); CREATE TABLE t@ (n int);
			CREATE TRIGGER x BEFORE INSERT ON log@ FOR EACH ROW EXECUTE FUNCTION fires@();
			CREATE FUNCTION logs@() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO log@ VALUES (NEW.n); RETURN NEW; END$$;
			CREATE TRIGGER x BEFORE INSERT ON t@ FOR EACH ROW EXECUTE FUNCTION logs@()`,
			"INSERT INTO t@ VALUES (1)", setting, ""},
		"trigger of a partition": {`CREATE TABLE t@ (n int) PARTITION BY RANGE (n); CREATE TABLE part@ PARTITION OF t@ DEFAULT;
			CREATE TRIGGER x BEFORE INSERT ON part@ FOR EACH ROW EXECUTE FUNCTION fires@()`,
			"INSERT INTO t@ VALUES (1)", setting, ""},
		"trigger behind a view": {`CREATE TABLE t@ (n int); CREATE VIEW v@ AS SELECT n FROM t@; CREATE VIEW w@ AS SELECT n FROM v@;
			CREATE TRIGGER x AFTER INSERT ON t@ FOR EACH ROW EXECUTE FUNCTION fires@()`,
			"INSERT INTO w@ VALUES (1)", setting, ""},
		"trigger instead of a write to a view": {`CREATE VIEW v@ AS SELECT 1 AS n;
			CREATE TRIGGER x INSTEAD OF INSERT ON v@ FOR EACH ROW EXECUTE FUNCTION fires@()`,
			"INSERT INTO v@ VALUES (1)", setting, ""},
		"default":                 {"CREATE TABLE t@ (n int DEFAULT f@(1))", "INSERT INTO t@ DEFAULT VALUES", setting, ""},
		"default of PostgreSQL":   {"CREATE TABLE t@ (n text DEFAULT set_config('a.b', 'left', false))", "INSERT INTO t@ DEFAULT VALUES", setting, ""},
		"generated column":        {"CREATE TABLE t@ (n int, m int GENERATED ALWAYS AS (lies@(n)) STORED)", "INSERT INTO t@ VALUES (1)", setting, ""},
		"check":                   {"CREATE TABLE t@ (n int CHECK (f@(n) > 0))", "INSERT INTO t@ VALUES (1)", setting, ""},
		"check of a domain":       {"CREATE DOMAIN d@ AS int CHECK (f@(VALUE) > 0); CREATE TABLE t@ (n d@)", "INSERT INTO t@ VALUES (1)", setting, ""},
		"default of a domain":     {"CREATE DOMAIN d@ AS int DEFAULT f@(1); CREATE TABLE t@ (n d@)", "INSERT INTO t@ DEFAULT VALUES", setting, ""},
		"index of an expression":  {"CREATE TABLE t@ (n int); CREATE INDEX ON t@ (lies@(n))", "INSERT INTO t@ VALUES (1)", setting, ""},
		"index with a condition":  {"CREATE TABLE t@ (n int); CREATE INDEX ON t@ (n) WHERE lies@(n) > 0", "INSERT INTO t@ VALUES (1)", setting, ""},
		"partition key":           {"CREATE TABLE t@ (n int) PARTITION BY RANGE (lies@(n)); CREATE TABLE part@ PARTITION OF t@ DEFAULT", "INSERT INTO t@ VALUES (1)", setting, ""},
		"rule":                    {"CREATE TABLE t@ (n int); CREATE RULE x AS ON INSERT TO t@ DO ALSO SELECT f@(1)", "INSERT INTO t@ VALUES (1)", setting, ""},
		"rule that writes":        {"CREATE TABLE log@ (n int DEFAULT f@(1)); CREATE TABLE t@ (n int); CREATE RULE x AS ON UPDATE TO t@ DO INSTEAD INSERT INTO log@ DEFAULT VALUES; INSERT INTO t@ VALUES (1)", "UPDATE t@ SET n = 2", setting, ""},
		"policy":                  {"CREATE TABLE t@ (n int); ALTER TABLE t@ ENABLE ROW LEVEL SECURITY; ALTER TABLE t@ FORCE ROW LEVEL SECURITY; CREATE POLICY x ON t@ FOR INSERT WITH CHECK (f@(n) > 0)", "INSERT INTO t@ VALUES (1)", setting, ""},
		"function":                {"CREATE TABLE t@ (n int)", "INSERT INTO t@ VALUES (f@(1))", setting, ""},
		"COPY":                    {"CREATE TABLE t@ (n int DEFAULT f@(1), m int)", "COPY t@ (m) FROM STDIN", setting, ""},
		"WITH":                    {"CREATE TABLE t@ (n int DEFAULT f@(1))", "WITH x AS (INSERT INTO t@ DEFAULT VALUES RETURNING 1) SELECT * FROM x", setting, ""},
		"EXPLAIN ANALYZE":         {"CREATE TABLE t@ (n int DEFAULT f@(1))", "EXPLAIN ANALYZE INSERT INTO t@ DEFAULT VALUES", setting, ""},
		"MERGE":                   {"CREATE TABLE t@ (n int DEFAULT f@(1))", "MERGE INTO t@ USING (SELECT 1) s ON false WHEN NOT MATCHED THEN INSERT DEFAULT VALUES", setting, ""},
		"serial":                  {"CREATE TABLE t@ (n serial)", "INSERT INTO t@ DEFAULT VALUES", "SELECT lastval()", "55000"},
		"identity":                {"CREATE TABLE t@ (n int GENERATED ALWAYS AS IDENTITY, m int)", "INSERT INTO t@ (m) VALUES (1)", "SELECT lastval()", "55000"},
		"sequence in a function":  {"CREATE SEQUENCE sq@; CREATE FUNCTION next@() RETURNS bigint LANGUAGE sql AS $$SELECT nextval('sq@')$$", "SELECT next@()", "SELECT lastval()", "55000"},
		"query in a SQL function": {"CREATE FUNCTION g@() RETURNS text LANGUAGE sql AS $$SELECT set_config('a.b', 'left', false)$$", "SELECT g@()", setting, ""},
		"procedure":               {"CREATE PROCEDURE g@() LANGUAGE plpgsql AS $$BEGIN PERFORM f@(1); END$$", "CALL g@()", setting, ""},
	} {
		number++
		sql := strings.NewReplacer("@", strconv.Itoa(number)).Replace
		t.Run(name, func(t *testing.T) {
			owner := r.connect()
			owner.must(sql(functions + c.prepare))
			owner.close()

			first := r.connect()
			if err := first.leave(sql(c.leave)); err != nil {
				t.Fatal(err)
			}
			first.close()
			next := r.connect()
			defer next.close()
			// In a transaction it is asked on the primary, where it was left.
			rows, err := next.run("BEGIN; " + c.look)
			got := sqlstate(err)
			if err == nil {
				got = rows[0][0]
			}
			if got != c.want {
				t.Errorf("the next client's %s: %q, want %q", c.look, got, c.want)
			}
		})
	}
}

// leave executes one statement; COPY gets a row.
func (c *client) leave(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if strings.HasPrefix(sql, "COPY") {
		_, err := c.conn.CopyFrom(ctx, strings.NewReader("1\n"), sql)
		return err
	}
	_, err := c.run(sql)
	return err
}
