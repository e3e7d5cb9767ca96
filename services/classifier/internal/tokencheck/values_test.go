package tokencheck

import (
	"testing"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// TestStringValues compares the value of every string constant of the corpus.
func TestStringValues(t *testing.T) {
	compared := 0
	for _, text := range corpus(t) {
		all, _ := pieces(text)
		for _, p := range all {
			lx := sqltoken.NewLexer([]byte(text), serverMajor)
			got, ok := lx.AppendString(nil, p.Token)
			if !ok || joinedOverComment.MatchString(p.text) {
				continue
			}
			parsed, err := pg_query.Parse("SELECT " + p.text)
			if err != nil {
				t.Errorf("%s: %v", p.text, err)
				continue
			}
			column := parsed.Stmts[0].Stmt.GetSelectStmt().TargetList[0].GetResTarget()
			if want := column.Val.GetAConst().GetSval().GetSval(); string(got) != want {
				t.Errorf("%s is %q, PostgreSQL has %q", p.text, got, want)
			}
			compared++
		}
	}
	if compared < 200 {
		t.Errorf("only %d string constants were compared", compared)
	}
}
