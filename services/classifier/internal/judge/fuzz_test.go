package judge

import (
	"regexp"
	"testing"

	"github.com/pganalyze/pg_query_go/v6/parser"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// mustWrite finds, in the parser's JSON, what no read contains. It knows nothing
// of how the judge looks at a tree. A quote inside a string is escaped in JSON, so
// that no constant can look like one of these.
var mustWrite = regexp.MustCompile(`[^\\]"(\w*Stmt|intoClause|lockingClause|IntoClause|LockingClause|is_from|is_program|filename)":`)

// readable are the statements that may be in a read.
var readable = map[string]bool{"SelectStmt": true, "ExplainStmt": true, "RawStmt": true, "CopyStmt": true}

func FuzzJudge(f *testing.F) {
	for _, e := range table(f) {
		f.Add(e.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o := Judge(text, anyRelation{})
		if o.Kind != verdict.Read {
			return
		}
		if o.Effects != 0 {
			t.Fatalf("a read with effects %v: %q", o.Effects, text)
		}
		tree, err := parser.ParseToJSON(Bare(text))
		if err != nil {
			t.Fatalf("a read that does not parse: %q: %v", text, err)
		}
		for _, m := range mustWrite.FindAllStringSubmatch(tree, -1) {
			if !readable[m[1]] {
				t.Fatalf("a read with %s in it: %q", m[1], text)
			}
		}
		if again := Judge(text+"\n; DELETE FROM t", anyRelation{}); again.Kind == verdict.Read {
			t.Fatalf("a DELETE after %q is overlooked", text)
		}
	})
}
