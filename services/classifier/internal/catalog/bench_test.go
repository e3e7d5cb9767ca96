package catalog

import (
	"testing"

	pgquery "github.com/pganalyze/pg_query_go/v6"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// BenchmarkCatalog is about a database with 2,000 tables, 1,000 views and 2,000
// functions.
func BenchmarkCatalog(b *testing.B) {
	c := labtest.Start(b, 0)
	conn, err := login(c).connect(b.Context(), lab.Database)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	for range 20 {
		if _, err := conn.PgConn().Exec(b.Context(), `SET search_path = public; DO $do$
			DECLARE n int := (SELECT count(*) FROM pg_class WHERE relname ~ '^t[0-9]+$');
			BEGIN FOR i IN n + 1 .. n + 100 LOOP
				EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY, a text, b text, c timestamptz DEFAULT now(), d numeric)', i);
				EXECUTE format($$CREATE FUNCTION f%s(x int) RETURNS text LANGUAGE sql STABLE AS 'SELECT a FROM public.t%s WHERE id = x'$$, i, i);
				IF i % 2 = 0 THEN
					EXECUTE format('CREATE VIEW v%s AS SELECT x.id, y.a, f%s(y.id) FROM t%s x JOIN t%s y USING (id)', i, i, i, i - 1);
				END IF;
			END LOOP; END $do$; SET search_path = pg_catalog`).ReadAll(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("fingerprint", func(b *testing.B) {
		for b.Loop() {
			if _, err := readFingerprint(b.Context(), conn); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := readContents(b.Context(), conn.Conn); err != nil {
				b.Fatal(err)
			}
		}
	})
	contents, _, err := readContents(b.Context(), conn.Conn)
	if err != nil {
		b.Fatal(err)
	}
	known := newBodies(pgquery.Parse)
	s := compile(contents, known, nil)
	b.Run("compile", func(b *testing.B) {
		for b.Loop() {
			s = compile(contents, known, nil)
		}
	})
	b.Run("spoils", func(b *testing.B) {
		next := compile(contents, known, nil)
		for b.Loop() {
			if s.Spoils(next) {
				b.Fatal("the same catalog spoils verdicts")
			}
		}
	})
	tree, err := pgquery.Parse("SELECT v2.id, lower(a) FROM v2 JOIN t7 USING (id) WHERE b LIKE 'x%' AND f8(id) = $1")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("judge", func(b *testing.B) {
		for b.Loop() {
			if o := judge.Tree("", tree, 0, s); o.Reason != "" {
				b.Fatal(o.Reason)
			}
		}
	})
}
