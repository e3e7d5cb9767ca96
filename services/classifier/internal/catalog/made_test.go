package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// Of the SQL that a body makes, only what begins a statement counts: a piece of one, or a
// string that is run by nobody, must not bind the sessions of a table's writers.
func TestOfSQLThatIsMadeTheBeginningsCount(t *testing.T) {
	for _, text := range []string{
		`EXECUTE 'SET ROLE x'`,
		`EXECUTE 'set role ' || quote_ident(r)`,
		`EXECUTE 'SET search_path TO ' || quote_ident(s)`,
		`EXECUTE 'SET app.tenant = ''' || t || ''''`,
		`EXECUTE E'SET\n\twork_mem\t=\n''1MB'''`,
		`EXECUTE $q$ /* x */ set -- y
			work_mem to '1MB'$q$`,
		`EXECUTE 'SET SESSION work_mem = 1'`,
		`EXECUTE 'SET SESSION AUTHORIZATION x'`,
		`EXECUTE 'SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY'`,
		`EXECUTE 'SET ' || quote_ident(a) || ' = 1'`,
		`EXECUTE 'SET SESSION ' || assignment`,
		`EXECUTE format('SET %s', assignment)`,
		`EXECUTE 'SET ' || 'app.' || a || ' = 1'`,
		`EXECUTE 'SET TIME ZONE ''UTC'''`,
		`EXECUTE 'SET SCHEMA ''s'''`,
		`EXECUTE ('SET ROLE x')`,
		`EXECUTE format('SET %I = %L', a, b)`,
		`EXECUTE format('SET %1$I TO %2$L', a, b)`,
		`EXECUTE pg_catalog.format($f$SET ROLE %I$f$, r)`,
		`EXECUTE (format('RESET %I', a))`,
		`EXECUTE 'RESET ALL'`,
		`EXECUTE 'RESET ' || a`,
		`EXECUTE 'LISTEN x'`,
		`EXECUTE 'LISTEN ' || quote_ident(c)`,
		`EXECUTE 'LOAD ''auto_explain'''`,
		`EXECUTE format('LOAD %L', l)`,
		`EXECUTE 'PREPARE x AS SELECT 1'`,
		`EXECUTE format('PREPARE %I (int) AS SELECT 1', n)`,
		`EXECUTE 'CREATE TEMP TABLE x (a int)'`,
		`EXECUTE E'CREATE\tLOCAL\tTEMPORARY\nTABLE x (a int)'`,
		`EXECUTE 'create or replace temp view x as select 1'`,
		`EXECUTE 'CREATE TABLE pg_temp.' || quote_ident(t) || ' (a int)'`,
		`EXECUTE 'CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS ''SELECT 1'''`,
		`FOR r IN EXECUTE 'SET ROLE x' LOOP NULL; END LOOP`,
		`q := 'CREATE TEMP TABLE x AS ' || body; EXECUTE q`,
		`EXECUTE concat('create temporary table ', t, ' (a int)')`,
		`q := format('CREATE TEMP TABLE %I (a int)', t); EXECUTE q`,
	} {
		if b := plpgsql("BEGIN "+text+"; END", true); b.reason == "" || b.effects != verdict.Session {
			t.Errorf("%s: reason %q, effects %v", text, b.reason, b.effects)
		}
	}
	for _, text := range []string{
		`EXECUTE 'UPDATE ' || quote_ident(t) || ' SET ' || c || ' = $1'`,
		`EXECUTE 'UPDATE t' || ' SET a = 1'`,
		`EXECUTE format('UPDATE %I', t) || format(' SET %I = 1', c)`,
		`IF op = 'set' THEN EXECUTE q; END IF`,
		`IF status IN ('load', 'reset', 'reset all', 'listen x') THEN EXECUTE q; END IF`,
		`RAISE NOTICE 'Set % to %', a, b; EXECUTE q`,
		`RAISE NOTICE 'Reset of %', a; EXECUTE q`,
		`RAISE NOTICE 'create a temporary table'; EXECUTE q`,
		`q := 'CREATE TABLE temp (a int)'; EXECUTE q`,
		`a := 'set b = c'; EXECUTE q`,
		`SELECT 1 INTO a FROM pg_namespace WHERE nspname NOT LIKE 'pg_temp%'; EXECUTE q`,
		`EXECUTE 'SELECT count(*) FROM pg_namespace WHERE nspname NOT LIKE ''pg_temp%'''`,
		`EXECUTE 'SET LOCAL work_mem = 1'`,
		`EXECUTE format('SET LOCAL %I = %L', a, b)`,
		`EXECUTE 'SET ' || 'LOCAL ' || a || ' = 1'`,
		`EXECUTE 'SET LOCAL ' || assignment`,
		`EXECUTE 'SET TRANSACTION READ ONLY'`,
		`EXECUTE 'SET CONSTRAINTS ALL DEFERRED'`,
		`EXECUTE 'SET '`,
		`EXECUTE 'PREPARE TRANSACTION ''x'''`,
		`EXECUTE 'CREATE TABLE x (a int)'`,
		`EXECUTE 'CREATE TABLE temp (a int)'`,
		`EXECUTE ''`,
		`ANALYZE t; a := 'reset all'`,
	} {
		if b := plpgsql("BEGIN "+text+"; END", true); b.reason == "" || b.effects != 0 {
			t.Errorf("%s: reason %q, effects %v", text, b.reason, b.effects)
		}
	}
}

// What one thing in a body hides of the rest is the proof, not what the rest leaves.
func TestEffectsAreGatheredToTheEndOfABody(t *testing.T) {
	for text, want := range map[string]verdict.Effect{
		"EXECUTE q; SET ROLE x":                        verdict.Session,
		"ANALYZE t; RESET ALL":                         verdict.Session,
		"ANALYZE t; LISTEN x":                          verdict.Session,
		"EXECUTE q; INSERT INTO pg_temp.x VALUES (1)":  verdict.Session,
		"ANALYZE t; CREATE TEMP TABLE x (a int)":       verdict.Session,
		"ANALYZE t; EXECUTE q; SET LOCAL work_mem = 1": 0,
	} {
		b := plpgsql("BEGIN "+text+"; END", true)
		first := plpgsql("BEGIN "+text[:strings.IndexByte(text, ';')+1]+" END", true)
		if b.reason == "" || b.effects != want {
			t.Errorf("%s: reason %q, effects %v", text, b.reason, b.effects)
		}
		if strings.HasPrefix(text, "EXECUTE") && b.reason != first.reason {
			t.Errorf("%s: reason %q, want that of what is first: %q", text, b.reason, first.reason)
		}
	}
	b := plpgsql("BEGIN PERFORM before(); EXECUTE q; PERFORM behind(); ANALYZE t; INSERT INTO t VALUES (1); END", true)
	for _, name := range []string{"before", "behind"} {
		if !slices.Contains(b.uses, use{kind: useWord, name: name}) {
			t.Errorf("the call of %s() is overlooked", name)
		}
	}
	if !b.writes {
		t.Error("a write is overlooked")
	}
}

// Each of very many strings may be the beginning of all that follow: what is read of them stays
// in proportion to the text.
func TestManyPiecesAreReadInProportion(t *testing.T) {
	const many = 90_000
	text := "BEGIN EXECUTE " + strings.Repeat("'create '||", many) + "'x'; END"
	if b := plpgsql(text, true); b.effects != 0 {
		t.Errorf("effects %v", b.effects)
	}
	text = "BEGIN EXECUTE 'create '||'temp '||" + strings.Repeat("'create '||", many) + "'x'; END"
	if b := plpgsql(text, true); b.effects != verdict.Session {
		t.Errorf("effects %v of a temporary table", b.effects)
	}
}
