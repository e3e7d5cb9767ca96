package judge

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	pgquery "github.com/pganalyze/pg_query_go/v6"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

func TestDetail(t *testing.T) {
	l := func(n int) verdict.Operand { return verdict.Operand{Literal: n} }
	p := func(n int) verdict.Operand { return verdict.Operand{Param: n} }
	w := func(s string) verdict.Operand { return verdict.Operand{Word: s} }
	set := func(s ...verdict.Setting) *verdict.Part {
		return &verdict.Part{Effects: verdict.Session, Settings: s}
	}
	locals := func(rest verdict.Effect, names ...verdict.Operand) []verdict.Part {
		return []verdict.Part{{Effects: rest | verdict.Unproven, Rest: rest, Locals: names}}
	}
	list := func(o verdict.Operand) []verdict.Part {
		return []verdict.Part{{Effects: verdict.Unproven, Locals: []verdict.Operand{{}}, List: &o}}
	}
	for text, want := range map[string][]verdict.Part{
		"SELECT 1":      nil,
		"SELECT 1;":     nil,
		"DELETE FROM t": nil,
		"SELECT 1; DELETE FROM t ;/* x */ SELECT 'é'; COMMIT": {{Kind: verdict.Read, End: 8}, {Start: 9, End: 24},
			{Kind: verdict.Read, Start: 25, End: 44}, {Start: 45, End: 52, Effects: verdict.Transaction}},
		"SELECT 1; DO 'x'":      {{Kind: verdict.Read, End: 8}, {Start: 9, End: 16, Effects: verdict.Unproven}},
		"PREPARE p AS SELECT 1": {{Effects: verdict.Session, Prepare: &verdict.Prepare{Name: "p", Kind: verdict.Read}}},
		`PREPARE "P 1" (int) AS INSERT INTO t VALUES ($1, nextval('s'))`: {{Effects: verdict.Session | verdict.Sequences,
			Prepare: &verdict.Prepare{Name: "P 1", Effects: verdict.Sequences}}},
		"PREPARE p (int, text[]) AS SELECT 1": {{Effects: verdict.Session, Prepare: &verdict.Prepare{Name: "p", Kind: verdict.Read}}},
		"PREPARE p (nowhere) AS SELECT 1": {{Effects: verdict.Session | verdict.Unproven,
			Prepare: &verdict.Prepare{Name: "p", Effects: verdict.Unproven}}},
		"EXECUTE p":                                      {{Effects: verdict.Unproven, Execute: &verdict.Execute{Name: "p", Kind: verdict.Read}}},
		"EXECUTE p (1, lower('A'))":                      {{Effects: verdict.Unproven, Execute: &verdict.Execute{Name: "p", Kind: verdict.Read}}},
		"EXECUTE p (pg_backend_pid())":                   {{Effects: verdict.Unproven, Execute: &verdict.Execute{Name: "p"}}},
		"EXECUTE p (f())":                                {{Effects: verdict.Unproven, Execute: &verdict.Execute{Name: "p", Effects: verdict.Unproven}}},
		"EXPLAIN EXECUTE p":                              nil,
		"CREATE TABLE x AS EXECUTE p":                    nil,
		"SELECT set_config('a.b', 'c', false)":           {*set(verdict.Setting{Name: l(1), Value: l(2), Local: w("false")})},
		"SELECT pg_catalog.set_config($1, $2, $3)":       {*set(verdict.Setting{Name: p(1), Value: p(2), Local: p(3)})},
		"SELECT set_config('a', $1::text, 'f'::bool), 5": {*set(verdict.Setting{Name: l(1), Value: p(1), Local: l(2)})},
		"SELECT 'x', set_config(E'a', NULL, false) AS y": {*set(verdict.Setting{Name: l(2), Value: w("null"), Local: w("false")})},
		"SELECT set_config('a', 'b', true), set_config('c', 'd', false)": {{Effects: verdict.Session | verdict.Unproven, Settings: []verdict.Setting{{Name: l(1), Value: l(2), Local: w("true")},
			{Name: l(3), Value: l(4), Local: w("false")}}}},
		"SELECT set_config('a', 'b', true)":                                                                        {{Effects: verdict.Unproven, Settings: []verdict.Setting{{Name: l(1), Value: l(2), Local: w("true")}}, Locals: []verdict.Operand{l(1)}}},
		"SELECT set_config('app.u', $1::uuid::text, true)":                                                         locals(0, l(1)),
		"SELECT set_config('app.u', current_setting('x'), true), a FROM t":                                         locals(0, l(1)),
		"SELECT set_config($1::text, 'x', true) FROM t WHERE a = 'y'":                                              locals(0, p(1)),
		"select set_config(el->>0, el->>1, true) from json_array_elements($1::json) el":                            list(p(1)),
		"SELECT pg_catalog.set_config(el->>0, el->>1, true) FROM pg_catalog.json_array_elements('[]'::json) AS el": list(l(3)),
		"SELECT set_config(e->>0, e->>1, true) FROM json_array_elements($1) e WHERE true":                          locals(0, verdict.Operand{}),
		"SELECT set_config(e->>1, e->>0, true) FROM json_array_elements($1) e":                                     locals(0, verdict.Operand{}),
		"SELECT set_config(e->>0, e->>1, true), 1 FROM json_array_elements($1) e":                                  locals(0, verdict.Operand{}),
		"SELECT set_config(e->>0, e->>1, true) FROM json_array_elements($1::jsonb) e":                              locals(0, verdict.Operand{}),
		"SELECT set_config(x->>0, x->>1, true) FROM json_array_elements(f('[]')) x":                                locals(verdict.Unproven, verdict.Operand{}),
		"SELECT set_config(x->>0, x->>1, true) FROM jsonb_array_elements('[]') x":                                  locals(0, verdict.Operand{}),
		"SELECT set_config('a' || 'b', 'x', true), set_config('c', a, true) FROM t":                                locals(0, verdict.Operand{}, l(4)),
		"SELECT set_config('a', 'x', true), nextval('s') FROM t":                                                   locals(verdict.Sequences, l(1)),
		"SELECT set_config('a', 'x', true), set_config('a', 'x', false) FROM t":                                    locals(verdict.Session, l(1)),
		"WITH x AS (INSERT INTO t VALUES (1) RETURNING a) SELECT set_config('a', x.a, true) FROM x":                locals(0, l(2)),
		"SET LOCAL search_path = a":            {{Effects: verdict.Session, Locals: []verdict.Operand{w("search_path")}}},
		"SET LOCAL ROLE a":                     {{Effects: verdict.Session, Locals: []verdict.Operand{w("role")}}},
		"SET LOCAL SESSION AUTHORIZATION a":    nil,
		"SET LOCAL TIME ZONE DEFAULT":          {{Effects: verdict.Session, Locals: []verdict.Operand{w("timezone")}}},
		"SET LOCAL transaction_read_only = on": nil,
		"SET LOCAL seed = 0.5":                 nil,
		"BEGIN; SET LOCAL a.b = 'c'; COMMIT": {{End: 5, Effects: verdict.Transaction}, {Start: 6, End: 26, Effects: verdict.Session, Locals: []verdict.Operand{w("a.b")}},
			{Start: 27, End: 34, Effects: verdict.Transaction}},
		"SELECT set_config('a', 'b' || 'c', false)":                 nil,
		"SELECT set_config('a', 'b', false) FROM t":                 nil,
		"SELECT set_config('a', 'b', false) WHERE false":            nil,
		"SELECT set_config('a', 'b', false) LIMIT 0":                nil,
		"SELECT set_config('a', 'b', false), generate_series(1, 0)": nil,
		"SELECT length(set_config('a', 'b', false))":                nil,
		"SELECT set_config('a', 'b', false) UNION SELECT 'x'":       nil,
		"SELECT s.set_config('a', 'b', false)":                      nil,
		"SELECT set_config('a', 'b', is_local => false)":            nil,
		"VALUES (set_config('a', 'b', false))":                      nil,
		"INSERT INTO t SELECT set_config('a', 'b', false)":          nil,
	} {
		o := Judge(text, anyRelation{})
		var got []verdict.Part
		if o.Detail != nil {
			got = o.Detail.Parts
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n\tgot  %+v\n\twant %+v", text, got, want)
		}
	}
}

// The operands are found in any text of the template.
func TestDetailHoldsForTheTemplate(t *testing.T) {
	o := Judge("SELECT /* 'x' */ set_config('a.b', 'c', 'f')", anyRelation{})
	v, changes := o.Evaluate(verdict.Execution{Text: []byte("SELECT set_config( $x$d.e$x$,\n'f''g' -- 'y'\n, 'true')"), ServerMajor: 17})
	want := []verdict.Change{{Name: "d.e", Value: "f'g", Local: true}}
	if v.Effects != 0 || !reflect.DeepEqual(changes, want) {
		t.Errorf("%v %+v, want %+v", v.Effects, changes, want)
	}
}

func TestNamesAreMentioned(t *testing.T) {
	for text, want := range map[string]Names{
		"SELECT a, lower(b), lower(c) FROM t, s.u WHERE EXISTS (SELECT 1 FROM t)": {Reads: []string{"t", "s.u"}, Calls: []string{"lower"}},
		"WITH x AS (SELECT 1) SELECT * FROM x":                                    {},
		"INSERT INTO s.t SELECT * FROM u":                                         {Writes: []string{"s.t"}, Reads: []string{"u"}},
		"UPDATE t SET a = 1 FROM u":                                               {Writes: []string{"t"}, Reads: []string{"u"}},
		"MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE":                   {Writes: []string{"t"}, Reads: []string{"u"}},
		"TRUNCATE t, u": {Writes: []string{"t", "u"}},
		"SELECT * FROM t JOIN u ON true FOR UPDATE":    {Reads: []string{"t", "u"}, Locks: []string{"t", "u"}},
		"SELECT * FROM t x, u FOR SHARE OF x":          {Reads: []string{"t", "u"}, Locks: []string{"x"}},
		"LOCK t; SELECT s.f(pg_advisory_lock(1))":      {Reads: []string{"t"}, Locks: []string{"t"}, Calls: []string{"s.f", "pg_advisory_lock"}},
		"COPY t FROM STDIN":                            {Writes: []string{"t"}},
		"DELETE FROM t WHERE id IN (SELECT id FROM t)": {Writes: []string{"t"}, Reads: []string{"t"}},
	} {
		if o := Judge(text, anyRelation{}); !reflect.DeepEqual(o.Names, want) {
			t.Errorf("%s\n\tgot  %+v\n\twant %+v", text, o.Names, want)
		}
	}
}

type release int

func (r release) Major() int { return int(r) }

// What is syntax from a release on is a call of a function before it.
func TestSQLJSONReadsWhereItIsSyntax(t *testing.T) {
	type catalog struct {
		anyRelation
		release
	}
	for text, since := range map[string]int{
		"SELECT JSON_OBJECT('a': 1, 'b': 2 ABSENT ON NULL)": 16, "SELECT JSON_ARRAY(1, 2 RETURNING jsonb)": 16,
		"SELECT JSON_ARRAY(SELECT a FROM t)": 16, "SELECT JSON_OBJECTAGG(b: a), JSON_ARRAYAGG(a ORDER BY a) FROM t": 16,
		"SELECT JSON_VALUE('{}', '$.a' DEFAULT 1 ON EMPTY)": 17, "SELECT JSON_QUERY('{}', '$.a'), JSON_EXISTS('{}', '$.a')": 17,
		"SELECT JSON('1'), JSON_SCALAR(1), JSON_SERIALIZE('1')":                                                  17,
		"SELECT * FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a int PATH '$', NESTED PATH '$.b' COLUMNS (c text))) x": 17,
	} {
		for major, want := range map[int]verdict.Kind{0: verdict.Write, since - 1: verdict.Write, since: verdict.Read, 18: verdict.Read} {
			if o := Judge(text, catalog{release: release(major)}); o.Kind != want {
				t.Errorf("release %d: %s\n\t%v (%s), want %v", major, text, o.Kind, o.Reason, want)
			}
		}
	}
	for _, text := range []string{"SELECT JSON_VALUE('{}', '$.a' RETURNING mood)", "SELECT JSON_ARRAY(f())"} {
		if o := Judge(text, catalog{release: 18}); o.Kind != verdict.Write {
			t.Errorf("%s reads", text)
		}
	}
}

// Texts that differ in a comment share a verdict, so that it must not matter to the
// parser.
func TestCommentsDoNotMatter(t *testing.T) {
	for _, text := range []string{"SELECT 1 WHERE 1 NOT /* c */ IN (1)", "SELECT 1 ORDER BY 1 NULLS -- c\n FIRST", "SELECT 'a' -- c\n'b'"} {
		if o := Judge(text, anyRelation{}); o.Kind != verdict.Read {
			t.Errorf("%s: a write because of %s", text, o.Reason)
		}
	}
}

// A detail that is too long to travel is not kept either: a client can have a thousand of them.
func TestADetailThatIsTooLongIsNone(t *testing.T) {
	const call = "set_config('a.b', 'c', true)"
	for text, told := range map[string]bool{
		"SELECT " + call + strings.Repeat(", "+call, 20):                     true,
		"SELECT " + call + strings.Repeat(", "+call, 1000):                   false,
		strings.Repeat("SELECT "+call+";", 10):                               true,
		strings.Repeat("SELECT "+call+";", 200):                              false,
		strings.Repeat("SELECT 1;", 50):                                      true,
		strings.Repeat("SELECT 1;", 200):                                     false,
		strings.Repeat("SELECT 1;", 2000):                                    false,
		strings.Repeat("SELECT "+call+strings.Repeat(", "+call, 60)+";", 20): false,
	} {
		o := Judge(text, anyRelation{})
		if got := o.Detail != nil; got != told || got && !o.Detail.Travels() {
			t.Errorf("%.60s… of %d bytes: a detail: %v, want %v", text, len(text), got, told)
		}
	}
}

// Any client may send such a text. If its constants were numbered for each of the statements,
// that would take a hundred times the memory, and time.
func TestConstantsAreNumberedOnce(t *testing.T) {
	price := func(statements int) uint64 {
		text := strings.Repeat("SELECT set_config('a.b', 'c', true);", statements) + "SELECT 1 WHERE 1 IN (1" + strings.Repeat(",1", 20_000) + ")"
		tree, err := pgquery.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		opinions := make([]Opinion, len(tree.GetStmts()))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		detail(text, tree.GetStmts(), opinions, anyRelation{})
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if one, hundred := price(1), price(100); hundred > 10*one {
		t.Errorf("%d bytes for a statement, %d for a hundred", one, hundred)
	}
}
