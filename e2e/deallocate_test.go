package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// What is deallocated is what a server deallocates, however that is written, and in a string
// of statements as far as the string has been executed (rule 16).
func TestDeallocateIsThatOfTheServer(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	through, straight := r.twins(t)
	type batch = []pgproto3.FrontendMessage
	many := strings.Repeat("n", 62)
	names := []string{"a", "b", "größe", "GRÖSSE", "all", "prepare", many, many + "n"}
	prepare := batch{&pgproto3.Query{String: "DISCARD ALL"}}
	for _, n := range names {
		prepare = append(prepare, &pgproto3.Parse{Name: n, Query: "SELECT 1"})
	}
	prepare = append(prepare, &pgproto3.Sync{})
	compare := func(what string, messages batch, ready int) {
		t.Helper()
		want, got := straight.send(messages, ready), through.send(messages, ready)
		want = slices.DeleteFunc(want, func(m string) bool { return strings.Contains(m, "|C42622|") }) // "identifier will be truncated"
		if w, g := place.ReplaceAllString(strings.Join(want, "\n"), ""), place.ReplaceAllString(strings.Join(got, "\n"), ""); w != g {
			t.Errorf("%s\ndirect:\n%s\nthrough pgpilot:\n%s", what, w, g)
		}
	}
	var left batch
	for _, n := range names {
		left = append(left, &pgproto3.Describe{ObjectType: 'S', Name: n}, &pgproto3.Sync{})
	}
	for _, sql := range []string{
		"DEALLOCATE A", "DEALLOCATE PREPARE\fa", "\fDEALLOCATE a", "DEALLOCATE a\f;", ";DEALLOCATE a", "DEALLOCATE a;;", "DEALLOCATE a\v", "DEALLOCATE\va",
		"DEALLOCATE PREPARE\va;\v", "DEALLOCATE/**/a", "DEALLOCATE Größe", "DEALLOCATE GRÖSSE", `DEALLOCATE "GRÖSSE"`, `DEALLOCATE U&"a"`, `DEALLOCATE u&"GRÖSSE"`,
		"DEALLOCATE PREPARE", "DEALLOCATE prepare prepare", `DEALLOCATE "all"`, "DEALLOCATE all", "DEALLOCATE\fPrepare\fALL", `DEALLOCATE PREPARE "all"`, `DEALLOCATE "A"`,
		`DEALLOCATE ""`, "DEALLOCATE", "DEALLOCATE a b", "DEALLOCATE PREPARE a b", "DEALLOCATE 'a'", "DEALLOCATE none", ";DISCARD\fALL", "DISCARD PLANS",
		"DEALLOCATE " + many, "DEALLOCATE " + many + "N", "DEALLOCATE " + many + "nnn", `DEALLOCATE "` + many + `Ä"`, `DEALLOCATE "` + many + `n""Ä"`, `DEALLOCATE U&"` + many + `nÄ"`,
	} {
		compare("before", prepare, 2)
		compare(sql, batch{&pgproto3.Query{String: sql}}, 1)
		compare("behind "+sql, left, len(names))
		compare("before", prepare, 2)
		compare("extended: "+sql, batch{&pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}}, 1)
		compare("extended: behind "+sql, left, len(names))
	}
	for _, sql := range []string{
		"DEALLOCATE a; DEALLOCATE b", "SELECT 1; DEALLOCATE a", "DEALLOCATE a; SELECT 1/0; DEALLOCATE b", "DEALLOCATE a; DEALLOCATE a", "BEGIN; DEALLOCATE\fa; ROLLBACK",
		"SELECT 'DEALLOCATE b'; DEALLOCATE größe", "DEALLOCATE a; PREPARE a AS SELECT 2; EXECUTE a", "DEALLOCATE a; EXECUTE a", "DEALLOCATE none; DEALLOCATE a",
		"DEALLOCATE a; DEALLOCATE ALL; SELECT 1", `SELECT 1; DEALLOCATE "GRÖSSE"; DEALLOCATE b c`, "SET pgpilot.route = 'auto'; DEALLOCATE a; DEALLOCATE b",
	} {
		compare("before", prepare, 2)
		compare(sql, batch{&pgproto3.Query{String: sql}}, 1)
		compare("behind "+sql, left, len(names))
		compare("again, behind "+sql, batch{&pgproto3.Parse{Name: "a", Query: "SELECT 3"}, &pgproto3.Sync{}, &pgproto3.Bind{PreparedStatement: "a"}, &pgproto3.Execute{}, &pgproto3.Sync{}}, 2)
	}
}
