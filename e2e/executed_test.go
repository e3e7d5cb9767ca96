package e2e

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Whatever runs or explains a prepared statement finds the client's, however it was prepared,
// and nobody else's of that name (rule 16).
func TestWhatExecutesFindsWhatIsPrepared(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	through, straight := r.twins(t)
	neighbour, _ := r.twins(t)
	type batch = []pgproto3.FrontendMessage
	compare := func(what string, messages batch, ready int) {
		t.Helper()
		want, got := straight.send(messages, ready), through.send(messages, ready)
		if w, g := place.ReplaceAllString(strings.Join(want, "\n"), ""), place.ReplaceAllString(strings.Join(got, "\n"), ""); w != g {
			t.Errorf("%s\ndirect:\n%s\nthrough pgpilot:\n%s", what, w, g)
		}
	}
	parsed := batch{&pgproto3.Parse{Name: "p", Query: "SELECT $1::int + 10 AS n"}, &pgproto3.Sync{}}
	for how, prepare := range map[string]batch{
		"Parse":   parsed,
		"PREPARE": {&pgproto3.Query{String: "PREPARE p (int) AS SELECT $1 + 10 AS n"}},
		"nothing": {&pgproto3.Sync{}},
	} {
		for _, sql := range []string{
			"EXECUTE p(1)", "EXPLAIN (COSTS OFF) EXECUTE p(1)", "explain (costs off, verbose)\nexecute \"p\" (1)",
			"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE p(1)", "EXPLAIN (COSTS OFF) CREATE TABLE made AS EXECUTE p(1)",
			"CREATE TABLE made AS EXECUTE p(1)", "CREATE TABLE made AS EXECUTE p(1) WITH NO DATA", "CREATE TABLE IF NOT EXISTS made (m) AS EXECUTE p(1)",
			"CREATE UNLOGGED TABLE made AS EXECUTE p(1)", "CREATE TEMP TABLE made AS EXECUTE p(1)", "EXPLAIN (COSTS OFF) EXECUTE P(1)", "EXPLAIN EXECUTE q",
		} {
			for _, block := range []bool{false, true} {
				begin, end := "SELECT 1", "SELECT 2"
				if block {
					begin, end = "BEGIN", "COMMIT"
				}
				what := sql + ", prepared by " + how + ", behind " + begin
				neighbour.send(batch{&pgproto3.Query{String: "DISCARD ALL"}}, 1)
				neighbour.send(batch{&pgproto3.Query{String: "PREPARE p (int) AS SELECT $1 + 666"}, &pgproto3.Query{String: "EXECUTE p(1)"}}, 2)
				for protocol, messages := range map[string]batch{
					"simple":   {&pgproto3.Query{String: sql}},
					"string":   {&pgproto3.Query{String: "SELECT 0; " + sql}},
					"extended": {&pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{}},
				} {
					compare("prepare: "+what, append(batch{&pgproto3.Query{String: "DISCARD ALL"}}, prepare...), 2)
					compare("begin: "+what, batch{&pgproto3.Query{String: begin}}, 1)
					compare(protocol+": "+what, messages, 1)
					compare("made: "+what, batch{&pgproto3.Query{String: "SELECT * FROM made"}}, 1)
					compare("end: "+what, batch{&pgproto3.Query{String: end}, &pgproto3.Query{String: "DROP TABLE IF EXISTS made"}}, 2)
				}
			}
		}
	}
}
