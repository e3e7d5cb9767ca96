package readcheck

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// minCorpus is how many distinct statements there are at least.
const minCorpus = 20_000

// collection is statements in order, each once.
type collection struct {
	all  []string
	seen map[string]bool
}

func (c *collection) add(text string) {
	if !c.seen[text] {
		c.seen[text] = true
		c.all = append(c.all, text)
	}
}

// plain gives the statements for a server that are not disguised, and how many of
// them, the first, were written by hand.
func plain(ctx context.Context, t *testing.T, server *pgx.Conn) (_ *collection, own int) {
	t.Helper()
	c := &collection{seen: make(map[string]bool)}
	add := c.add
	for _, file := range []string{"../judge/testdata/verdicts.txt", "../catalog/testdata/verdicts.txt"} {
		for line := range strings.Lines(read(t, file)) {
			if head, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "| "); ok && !strings.HasPrefix(head, "#") {
				add(text)
			}
		}
	}
	for _, file := range []string{"statements.txt", "commands.txt"} {
		for line := range strings.Lines(read(t, "../tokencheck/testdata/"+file)) {
			if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
				add(line)
			}
		}
	}
	for _, part := range strings.Split(read(t, "../tokencheck/testdata/multiline.txt"), "\n%%\n") {
		add(part)
	}
	own = len(c.all)
	for _, sql := range []string{callsSQL, operationsSQL, castsSQL, relationsSQL} {
		rows, err := server.Query(ctx, sql)
		if err != nil {
			t.Fatal(err)
		}
		made, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if len(made) < 100 {
			t.Fatalf("only %d statements of %.60s", len(made), sql)
		}
		for _, text := range made {
			add(text)
		}
	}
	return c, own
}

// corpus gives at least minCorpus distinct statements for a server.
func corpus(ctx context.Context, t *testing.T, server *pgx.Conn) []string {
	t.Helper()
	c, own := plain(ctx, t, server)
	rng := rand.New(rand.NewPCG(7, 8))
	n := len(c.all)
	for round := 0; len(c.all) < minCorpus || round < 2; round++ {
		if round > 50 {
			t.Fatalf("only %d distinct statements", len(c.all))
		}
		for i, text := range c.all[:n] {
			if i < own || round < 1 { // what was written by hand has more to disguise
				c.add(disguise(rng, text))
			}
		}
	}
	return c.all
}

// some gives another sample of the corpus each time.
func some(ctx context.Context, t *testing.T, server *pgx.Conn) []string {
	t.Helper()
	c, _ := plain(ctx, t, server)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	rng.Shuffle(len(c.all), func(i, j int) { c.all[i], c.all[j] = c.all[j], c.all[i] })
	all := c.all[:sample]
	for i := range all {
		if i%2 == 0 {
			all[i] = disguise(rng, all[i])
		}
	}
	return all
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// samples are values of types, by the type's name in pg_type; a type without one gets
// NULL.
var samples = map[string]string{
	"bool": "'t'", "bytea": `'\x0102'`, "char": "'c'", "name": "'t'", "int8": "'5'", "int2": "'2'", "int4": "'3'",
	"text": "'text of größe'", "oid": "'10'", "tid": "'(0,1)'", "xid": "'3'", "cid": "'0'", "xid8": "'3'",
	"json": `'{"a": [1, 2]}'`, "jsonb": `'{"a": [1, 2], "b": "x"}'`, "jsonpath": "'$.a[*]'", "xml": "'<a>b</a>'",
	"point": "'(1,2)'", "lseg": "'[(1,2),(3,4)]'", "path": "'((1,2),(3,4),(5,6))'", "box": "'(1,2),(3,4)'",
	"polygon": "'((1,2),(3,4),(5,7))'", "line": "'{1,2,3}'", "circle": "'<(1,2),3>'", "float4": "'1.5'", "float8": "'0.5'",
	"money": "'12'", "macaddr": "'08:00:2b:01:02:03'", "macaddr8": "'08:00:2b:01:02:03:04:05'", "inet": "'10.0.0.1/8'",
	"cidr": "'10.0.0.0/8'", "bpchar": "'abc'", "varchar": "'abc'", "date": "'2024-02-29'", "time": "'12:34:56'",
	"timestamp": "'2024-02-29 12:34:56'", "timestamptz": "'2024-02-29 12:34:56+00'", "interval": "'1 day 2 hours'",
	"timetz": "'12:34:56+00'", "bit": "B'101'", "varbit": "B'101'", "numeric": "'12.5'", "refcursor": "'c'",
	"uuid": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "pg_lsn": "'0/10'", "tsvector": "'a:1 b:2'", "tsquery": "'a & b'",
	"txid_snapshot": "'1:3:'", "pg_snapshot": "'1:3:'", "regproc": "'now'", "regprocedure": "'abs(int4)'", "regoper": "'!~~'",
	"regoperator": "'+(int4,int4)'", "regclass": "'t'", "regtype": "'int4'", "regconfig": "'english'", "regdictionary": "'simple'",
	"regnamespace": "'pg_catalog'", "regrole": "'pgpilot'", "regcollation": `'"C"'`, "aclitem": "'=r/pgpilot'",
	"int4range": "'[1,5)'", "int8range": "'[1,5)'", "numrange": "'[1,5)'", "tsrange": "'[2024-01-01,2024-02-01)'",
	"tstzrange": "'[2024-01-01,2024-02-01)'", "daterange": "'[2024-01-01,2024-02-01)'", "int4multirange": "'{[1,3),[5,9)}'",
	"int8multirange": "'{[1,3)}'", "nummultirange": "'{[1,3)}'", "_int4": "'{1,2,3}'", "_text": "'{a,b}'", "_float8": "'{0.2,0.5}'",
	"cstring": "'x'", "mood": "'ok'",
}

// pseudo are the types that values of polymorphic arguments have.
var pseudo = map[string]string{
	"any": "int4", "anyelement": "int4", "anynonarray": "int4", "anycompatible": "int4", "anycompatiblenonarray": "int4",
	"anyarray": "_int4", "anycompatiblearray": "_int4", "anyrange": "int4range", "anycompatiblerange": "int4range",
	"anymultirange": "int4multirange", "anycompatiblemultirange": "int4multirange", "anyenum": "mood",
}

// valueSQL is an expression that gives a value of a type in SQL, as text, by its number.
func valueSQL(oid string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "(SELECT CASE y.typname")
	for _, name := range sorted(pseudo) {
		fmt.Fprintf(&b, " WHEN '%s' THEN $v$%s::%s$v$", name, samples[pseudo[name]], pseudo[name])
	}
	for _, name := range sorted(samples) {
		fmt.Fprintf(&b, " WHEN '%s' THEN $v$%s::%s$v$", name, samples[name], quoted(name))
	}
	fmt.Fprintf(&b, " WHEN 'record' THEN 'ROW(1, ''a'')' ELSE 'NULL::' || format_type(y.oid, NULL) END FROM pg_type y WHERE y.oid = %s)", oid)
	return b.String()
}

func quoted(name string) string {
	if name == "char" || name == "bit" {
		return `"` + name + `"`
	}
	return name
}

func sorted(m map[string]string) []string {
	return slices.Sorted(maps.Keys(m)) // the corpus must be the same each time
}

// callsSQL makes calls of every function that a query may call: with values and with
// nulls, as a value and in FROM, aggregates over rows, window functions over a window.
// The functions that wait are left out.
var callsSQL = `
WITH f AS (
	SELECT p.oid, p.prokind, quote_ident(n.nspname) || '.' || quote_ident(p.proname) AS name,
		(SELECT coalesce(string_agg(` + valueSQL("a.t") + `, ', ' ORDER BY a.n), '') FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a(t, n)) AS arguments,
		(SELECT coalesce(string_agg('NULL', ', '), '') FROM unnest(p.proargtypes)) AS nulls, p.pronargs
	FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace LEFT JOIN pg_aggregate g ON g.aggfnoid = p.oid
	WHERE n.nspname IN ('pg_catalog', 'public', 's') AND p.prokind IN ('f', 'a', 'w') AND coalesce(g.aggkind, 'n') = 'n'
		AND p.proname !~ '^pg_sleep' AND NOT p.proargtypes::oid[] @> ARRAY['internal'::regtype::oid]
		AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype))
SELECT format('SELECT %s(%s)', name, arguments) FROM f WHERE prokind = 'f'
UNION ALL SELECT format('SELECT * FROM %s(%s)', name, arguments) FROM f WHERE prokind = 'f'
UNION ALL SELECT format('SELECT %s(%s)', name, nulls) FROM f WHERE prokind = 'f' AND pronargs > 0
UNION ALL SELECT format('SELECT %s(%s) FROM generate_series(1, 3)', name, CASE WHEN pronargs = 0 THEN '*' ELSE arguments END) FROM f WHERE prokind = 'a'
UNION ALL SELECT format('SELECT %s(%s) OVER (ORDER BY i) FROM generate_series(1, 3) i', name, arguments) FROM f WHERE prokind = 'w'
ORDER BY 1`

// operationsSQL makes expressions of every operator.
var operationsSQL = `
SELECT format('SELECT %s OPERATOR(%I.%s) %s', CASE WHEN o.oprleft <> 0 THEN ` + valueSQL("o.oprleft") + ` END,
	n.nspname, o.oprname, ` + valueSQL("o.oprright") + `)
FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace
UNION ALL
SELECT format('SELECT x %s y FROM (SELECT %s AS x, %s AS y) z ORDER BY 1', o.oprname, ` + valueSQL("o.oprleft") + `, ` + valueSQL("o.oprright") + `)
FROM pg_operator o WHERE o.oprleft <> 0
ORDER BY 1`

// castsSQL makes casts between types, and reads and writes values of each.
var castsSQL = `
SELECT format('SELECT (%s)::%s', ` + valueSQL("c.castsource") + `, format_type(c.casttarget, NULL)) FROM pg_cast c
UNION ALL
SELECT format('SELECT (%s)::text, ARRAY[%1$s], ROW(%1$s), to_jsonb(%1$s)', ` + valueSQL("t.oid") + `)
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typtype IN ('b', 'd', 'e', 'r', 'm', 'c') AND n.nspname !~ '^pg_t'
UNION ALL
SELECT format('SELECT x, count(*) FROM (SELECT %s AS x FROM generate_series(1, 3)) y GROUP BY x ORDER BY x', ` + valueSQL("t.oid") + `)
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typtype IN ('b', 'd', 'e', 'r', 'm') AND n.nspname !~ '^pg_t'
ORDER BY 1`

// relationsSQL makes reads of every relation. The views of information_schema take long,
// so that there are few of them.
const relationsSQL = `
WITH r AS (
	SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name, c.oid, n.nspname = 'information_schema' AS slow
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p', 'S') AND n.nspname !~ '^pg_t'),
a AS (
	SELECT r.name, quote_ident(a.attname) AS attname
	FROM r JOIN pg_attribute a ON a.attrelid = r.oid AND NOT a.attisdropped WHERE NOT r.slow)
SELECT format('SELECT * FROM %s', name) FROM r
UNION ALL SELECT format('TABLE %s', name) FROM r WHERE NOT slow
UNION ALL SELECT format('SELECT count(*) FROM ONLY %s WHERE true', name) FROM r WHERE NOT slow
UNION ALL SELECT format('COPY (SELECT * FROM %s) TO STDOUT', name) FROM r WHERE NOT slow
UNION ALL SELECT format('EXPLAIN (COSTS off) SELECT * FROM %s x', name) FROM r
UNION ALL SELECT format('WITH w AS (SELECT x.* FROM %s x) SELECT DISTINCT w::text FROM w', name) FROM r WHERE NOT slow
UNION ALL SELECT format('SELECT x.%s, x.* FROM %s x ORDER BY 1 LIMIT 3', attname, name) FROM a
UNION ALL SELECT format('SELECT max(x.%s::text), min(x.%1$s::text), count(DISTINCT x.%1$s::text) FROM %s x', attname, name) FROM a
ORDER BY 1`
