package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// atOnce sends messages and an empty query behind them, and gives every message of the answer
// up to the empty query's, as one line of text each: how many ReadyForQuery there are is the
// server's to say, which skips messages up to a Sync.
func (w *wire) atOnce(messages ...pgproto3.FrontendMessage) string {
	w.t.Helper()
	answer, ended := []string(nil), false
	for messages = append(messages, &pgproto3.Query{}); !ended; messages = nil {
		lines := w.send(messages, 1)
		for _, l := range lines {
			ended = ended || strings.HasPrefix(l, "I ")
		}
		answer = append(answer, lines...)
	}
	return place.ReplaceAllString(strings.Join(answer, "\n"), "")
}

// A simple query finds what has been prepared by a Parse that no Sync has followed yet, and
// takes it away, as on a server (rule 16).
func TestQueriesBehindAParseWithoutSync(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	through, straight := r.twins(t)
	type batch = []pgproto3.FrontendMessage
	failures := 0
	compare := func(what string, messages ...pgproto3.FrontendMessage) {
		t.Helper()
		if want, got := straight.atOnce(messages...), through.atOnce(messages...); want != got {
			failures++
			t.Errorf("%s\ndirect:\n%s\nthrough pgpilot:\n%s", what, want, got)
		}
	}
	parse := func(name, sql string) *pgproto3.Parse { return &pgproto3.Parse{Name: name, Query: sql} }
	run := func(name string) batch {
		return batch{&pgproto3.Bind{PreparedStatement: name}, &pgproto3.Execute{}}
	}
	query := func(sql string) *pgproto3.Query { return &pgproto3.Query{String: sql} }
	sync := &pgproto3.Sync{}
	closing := &pgproto3.Close{ObjectType: 'S', Name: "s1"}
	statements := []string{
		"DEALLOCATE s1", "DEALLOCATE PREPARE S1; SELECT 1", `SELECT 1; DEALLOCATE "s1"`, "PREPARE s1 AS SELECT 3", "PREPARE s1 AS SELECT 3; EXECUTE s1", "EXECUTE s1",
		"DEALLOCATE s1; PREPARE s1 AS SELECT 4; EXECUTE s1", "DEALLOCATE s1; EXECUTE s1", "EXECUTE s1; DEALLOCATE s1", "DEALLOCATE ALL", "DEALLOCATE ALL; SELECT 1",
		"DISCARD ALL", "DEALLOCATE s1; SELECT 1/0", "DEALLOCATE none", "SELECT 'DEALLOCATE s1'", "PREPARE s3 AS SELECT 5", "DEALLOCATE s1; DEALLOCATE s2",
	}
	each := func(befores, prefixes []batch) {
		t.Helper()
		for _, before := range befores {
			for _, prefix := range prefixes {
				for _, sql := range statements {
					if strings.HasPrefix(sql, "EXECUTE") && strings.Contains(text(prefix), "DEALLOCATE") {
						continue // EXECUTE does not find statements that pgpilot executes itself
					}
					if strings.HasPrefix(sql, "EXECUTE s1;") && strings.Contains(text(prefix), "gone") {
						continue // that it is not found is said instead of why it cannot be prepared again
					}
					what := fmt.Sprintf("%s, behind %s, behind %s", sql, text(prefix), text(before))
					compare(what+": begin", append(append(batch{}, before...), sync)...)
					compare(what, append(append(append(batch{}, prefix...), query(sql)), sync)...)
					compare(what+": run", append(run("s1"), sync)...)
					compare(what+": DEALLOCATE", query("DEALLOCATE s1"))
					compare(what+": PREPARE", query("PREPARE s1 AS SELECT 9"))
					compare(what+": EXECUTE", query("EXECUTE s1"))
					compare(what+": end", query("ROLLBACK"), query("DISCARD ALL"))
					if failures > 40 {
						t.FailNow()
					}
				}
			}
		}
	}
	each([]batch{
		{query("SELECT 0")}, {query("BEGIN")}, {query("BEGIN; INSERT INTO basket VALUES (1)")}, {query("BEGIN; SELECT 1/0")},
		{parse("s1", "SELECT 'before'"), sync}, {parse("s1", "SELECT 'before'"), sync, query("BEGIN; EXECUTE s1")},
		{query("PREPARE s1 AS SELECT 'before'")}, {query("PREPARE s1 AS SELECT 'before'"), query("BEGIN; SELECT 1/0")},
	}, []batch{
		{parse("s1", "SELECT 1")}, {parse("s1", "SELECT 1"), closing}, {closing}, {parse("s1", "SELEC 1")}, {closing, parse("s1", "SELECT 2")},
		{parse("s1", "DEALLOCATE ALL")}, {parse("s1", "SELECT 1 AS a"), parse("s2", "SELECT 2"), &pgproto3.Flush{}},
		append(batch{parse("s1", "SELECT 1")}, run("s1")...), append(batch{parse("", "ROLLBACK")}, run("")...),
	})
	// A request of its own finds the same, also what cannot be parsed any more.
	each([]batch{
		{query("SELECT 0")}, {query("BEGIN")}, {query("BEGIN; INSERT INTO basket VALUES (1)")}, {query("PREPARE s2 AS SELECT 2"), query("BEGIN; SELECT 1/0")},
	}, []batch{
		{parse("s1", "SELECT 1"), sync}, {parse("s1", "DEALLOCATE ALL"), sync}, {parse("s1", "SELECT 1"), sync, closing, parse("s1", "SELECT 2"), sync},
		{parse("s1", "SELECT 1"), sync, query("EXECUTE s1"), closing, parse("s1", "SELECT 2"), sync}, {query("PREPARE s1 AS SELECT 1"), closing, sync},
		{query("CREATE TABLE gone (a int)"), parse("s1", "SELECT * FROM gone"), sync, query("DROP TABLE gone")},
		{query("CREATE TABLE gone (a int)"), query("PREPARE s1 AS SELECT * FROM gone"), query("DROP TABLE gone")},
	})
}

// text writes messages in short.
func text(messages []pgproto3.FrontendMessage) string {
	var out []string
	for _, m := range messages {
		out = append(out, strings.TrimPrefix(fmt.Sprintf("%T%+v", m, m), "*pgproto3."))
	}
	return strings.Join(out, " ")
}
