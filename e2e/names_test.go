package e2e

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// What names statements in the extended protocol finds what a PREPARE in front of it has made
// (rule 18), and an EXECUTE is described as it runs (rule 17), as by a server.
func TestNamesInSequencesAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	through, straight := r.twins(t)
	type batch = []pgproto3.FrontendMessage
	compare := func(what string, messages ...pgproto3.FrontendMessage) {
		t.Helper()
		if want, got := straight.atOnce(messages...), through.atOnce(messages...); want != got {
			t.Errorf("%s\ndirect:\n%s\nthrough pgpilot:\n%s", what, want, got)
		}
	}
	parse := func(name, sql string) *pgproto3.Parse { return &pgproto3.Parse{Name: name, Query: sql} }
	run := func(name string) batch {
		return batch{&pgproto3.Bind{PreparedStatement: name}, &pgproto3.Execute{}}
	}
	describe := func(name string) *pgproto3.Describe { return &pgproto3.Describe{ObjectType: 'S', Name: name} }
	query := func(sql string) *pgproto3.Query { return &pgproto3.Query{String: sql} }
	sync := &pgproto3.Sync{}
	for _, before := range []batch{{query("SELECT 1")}, {query("BEGIN")}, {query("BEGIN; SELECT 1/0")}} {
		for _, how := range []batch{{parse("q", "SELECT 5 AS five"), sync}, {parse("q", "SELECT 5 AS five")}, {query("PREPARE q AS SELECT 5 AS five")}} {
			compare("begin", before...)
			compare("describe an EXECUTE", append(append(batch{}, how...),
				parse("x", "EXECUTE q"), describe("x"), parse("", "EXPLAIN (COSTS off) EXECUTE q"), describe(""), sync)...)
			compare("run it", append(run("x"), sync)...)
			compare("end", query("ROLLBACK"), query("DISCARD ALL"))
		}
		prepare := append(batch{parse("", "PREPARE s AS SELECT 5 AS five")}, run("")...)
		for what, behind := range map[string]batch{
			"Parse":    append(batch{parse("other", "SELECT 6"), parse("s", "SELECT 6")}, run("s")...),
			"Bind":     run("s"),
			"Describe": {describe("s")},
			"Close":    append(batch{&pgproto3.Close{ObjectType: 'S', Name: "s"}, parse("s", "SELECT 7")}, run("s")...),
		} {
			compare("begin", before...)
			compare(what+" behind PREPARE", append(append(append(batch{}, prepare...), behind...), sync)...)
			compare("run behind that", append(run("s"), sync)...)
			compare("end", query("ROLLBACK"), query("DISCARD ALL"))
		}
	}
}

// A statement is not to be had by the name that servers know it by (rule 16).
func TestNamesOfServersAreNotTheClients(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	through, _ := r.twins(t)
	through.send([]pgproto3.FrontendMessage{&pgproto3.Parse{Name: "mine", Query: "SELECT 'mine'"}, &pgproto3.Sync{}}, 1)
	run := []pgproto3.FrontendMessage{&pgproto3.Bind{PreparedStatement: "mine"}, &pgproto3.Execute{}, &pgproto3.Sync{}}
	const names = "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'SELECT%mine%'"
	through.send([]pgproto3.FrontendMessage{&pgproto3.Query{String: "BEGIN"}}, 1)
	through.send(run, 1)
	through.send([]pgproto3.FrontendMessage{&pgproto3.Query{String: "SAVEPOINT a"}}, 1)
	said := strings.Join(through.send([]pgproto3.FrontendMessage{&pgproto3.Query{String: names}}, 1), "\n")
	at := strings.Index(said, "pgpilot_")
	if at < 0 || len(said) < at+40 {
		t.Fatalf("no name in %s", said)
	}
	name := `"` + said[at:at+40] + `"`
	for _, sql := range []string{"EXECUTE ", "EXPLAIN EXECUTE ", "DEALLOCATE ", "SELECT 1; EXECUTE "} {
		for _, by := range [][]pgproto3.FrontendMessage{
			{&pgproto3.Query{String: sql + name}},
			{&pgproto3.Parse{Query: sql + name}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}},
			{&pgproto3.Parse{Query: "SELECT 2"}, &pgproto3.Bind{}, &pgproto3.Query{String: sql + name}},
		} {
			through.send([]pgproto3.FrontendMessage{&pgproto3.Query{String: "ROLLBACK TO a"}}, 1)
			if got := strings.Join(through.send(run, 1), "\n"); !strings.Contains(got, "mine") {
				t.Fatalf("the statement itself gives %s", got)
			}
			if got := strings.Join(through.send(by, 1), "\n"); !strings.Contains(got, "C26000") && !strings.Contains(got, "C42601") {
				t.Errorf("%s gives %s", text(by), got)
			}
		}
	}
}
