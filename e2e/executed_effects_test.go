package e2e

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// What a prepared statement leaves in the server session is the client's, whatever the EXECUTE
// comes in (rules 20 and 21).
func TestWhatExecuteLeavesIsTheSessions(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	through, straight := r.twins(t)
	type batch = []pgproto3.FrontendMessage
	query := func(sqls ...string) (b batch) {
		for _, sql := range sqls {
			b = append(b, &pgproto3.Query{String: sql})
		}
		return b
	}
	compare := func(what string, messages batch, ready int) {
		t.Helper()
		want, got := straight.send(messages, ready), through.send(messages, ready)
		if w, g := place.ReplaceAllString(strings.Join(want, "\n"), ""), place.ReplaceAllString(strings.Join(got, "\n"), ""); w != g {
			t.Errorf("%s\ndirect:\n%s\nthrough pgpilot:\n%s", what, w, g)
		}
	}
	compare("sequence", query("CREATE SEQUENCE numbers"), 1)
	const locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
	for _, c := range []struct {
		text, look string
		parse      bool // PREPARE takes none such
	}{
		{text: "SELECT pg_advisory_lock(31)", look: locks},
		{text: "SELECT set_config('app.x', 'here', false)", look: "SHOW app.x"},
		{text: "SELECT nextval('numbers')", look: "SELECT lastval() > 0"},
		{text: "SET app.x = 'here'", look: "SHOW app.x", parse: true},
		{text: "SET TimeZone = 'Asia/Tokyo'", look: "SHOW TimeZone", parse: true},
		{text: "SET search_path = pg_catalog", look: "SELECT current_schemas(false)", parse: true},
		{text: "CREATE TEMP TABLE mine (a int)", look: "SELECT * FROM mine", parse: true},
		{text: "DECLARE c CURSOR WITH HOLD FOR SELECT 7", look: "FETCH c", parse: true},
	} {
		for how, prepare := range map[string]batch{
			"Parse":   {&pgproto3.Parse{Name: "p", Query: c.text}, &pgproto3.Sync{}},
			"PREPARE": query("PREPARE p AS " + c.text),
		} {
			if c.parse && how == "PREPARE" {
				continue
			}
			ways := map[string]batch{
				"simple":   query("EXECUTE p"),
				"string":   query("SELECT 1; EXECUTE p"),
				"extended": {&pgproto3.Parse{Query: "EXECUTE p"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}},
				"named":    {&pgproto3.Parse{Name: "x", Query: "EXECUTE p"}, &pgproto3.Bind{PreparedStatement: "x"}, &pgproto3.Execute{}, &pgproto3.Sync{}},
			}
			if !c.parse {
				ways["explained"] = query("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE p")
				ways["stored"] = query("CREATE TABLE made AS EXECUTE p")
			}
			for way, execute := range ways {
				if strings.Contains(c.text, "nextval") && (way == "explained" || way == "stored") {
					continue // of these it is not known what they run, and the connection is cleaned
				}
				what := c.text + ", prepared by " + how + ", " + way
				compare("before: "+what, append(query("DISCARD ALL", "DROP TABLE IF EXISTS made"), prepare...), 3)
				got := [2][]string{straight.send(execute, 1), through.send(execute, 1)}
				if len(got[0]) != len(got[1]) { // values of a sequence differ
					t.Errorf("%s\ndirect:\n%s\nthrough pgpilot:\n%s", what, strings.Join(got[0], "\n"), strings.Join(got[1], "\n"))
				}
				compare("behind: "+what, query(c.look), 1)
			}
		}
	}
}

// A sequence that the server discards changes nothing for an EXECUTE that is pipelined behind it
// (rule 16).
func TestExecuteBehindADiscardedSequence(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	through, straight := r.twins(t)
	type batch = []pgproto3.FrontendMessage
	run := func(sql string) batch {
		return batch{&pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Execute{}}
	}
	sync := batch{&pgproto3.Sync{}}
	compare := func(what string, messages batch, ready int) {
		t.Helper()
		want, got := straight.send(messages, ready), through.send(messages, ready)
		if w, g := place.ReplaceAllString(strings.Join(want, "\n"), ""), place.ReplaceAllString(strings.Join(got, "\n"), ""); w != g {
			t.Errorf("%s\ndirect:\n%s\nthrough pgpilot:\n%s", what, w, g)
		}
	}
	compare("table", batch{&pgproto3.Query{String: "CREATE TABLE once (n int UNIQUE)"}}, 1)
	parsed := batch{&pgproto3.Parse{Name: "c", Query: "INSERT INTO once VALUES (501)"}, &pgproto3.Sync{}}
	prepared := batch{&pgproto3.Query{String: "PREPARE c AS INSERT INTO once VALUES (501)"}}
	closed := batch{&pgproto3.Close{ObjectType: 'S', Name: "c"}}
	again := &pgproto3.Parse{Name: "c", Query: "INSERT INTO once VALUES (502)"}
	for before, first := range map[string]batch{"nothing": sync, "Parse": parsed, "PREPARE": prepared} {
		for skips, skipped := range map[string]batch{
			"Parse": {again}, "Close and Parse": append(closed[:1:1], again), "Close": closed, "DEALLOCATE": run("DEALLOCATE c"), "DEALLOCATE ALL": run("DEALLOCATE ALL"),
			"PREPARE": run("PREPARE c AS INSERT INTO once VALUES (503)"), "DEALLOCATE and Parse": append(run("DEALLOCATE c"), again),
		} {
			for fails, failing := range map[string]batch{"by a key": run("INSERT INTO once VALUES (1)"), "by its text": run("SELECT none"), "not": run("SELECT 1")} {
				for then, last := range map[string]batch{"EXECUTE": run("EXECUTE c"), "EXPLAIN": run("EXPLAIN (COSTS OFF) EXECUTE c"), "Bind": {&pgproto3.Bind{PreparedStatement: "c"}, &pgproto3.Execute{}}} {
					what := "before: " + before + ", fails " + fails + ", skipped: " + skips + ", then " + then
					compare("before: "+what, append(batch{&pgproto3.Query{String: "DISCARD ALL"}, &pgproto3.Query{String: "TRUNCATE once; INSERT INTO once VALUES (1)"}}, first...), 3)
					all := append(append(append(append(append(batch{}, failing...), skipped...), sync...), last...), sync...)
					compare(what, all, 2)
					compare("behind: "+what, batch{&pgproto3.Query{String: "SELECT * FROM once ORDER BY 1"}, &pgproto3.Query{String: "EXECUTE c"}}, 2)
				}
			}
		}
	}
}
