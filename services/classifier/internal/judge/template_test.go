package judge

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// substitutes are values for constants of one kind, chosen to matter if any do.
var substitutes = map[sqltoken.Kind][]string{
	sqltoken.String:    {"''", "'pg_temp'", "'true'", "'f'", "'DELETE FROM t'", "'INSERT'"},
	sqltoken.Integer:   {"0", "1", "7", "2147483647"},
	sqltoken.BitString: {"B'0'", "B'1'"},
	sqltoken.HexString: {"X'0'", "X'FF'"},
}

// variants gives the text with all constants of a kind replaced.
func variants(text string) []string {
	var out []string
	for kind, values := range substitutes {
		for _, value := range values {
			b := []byte(text)
			lexer := sqltoken.NewLexer(b, NewestMajor)
			var changed []byte
			last := 0
			for {
				t, err := lexer.Next()
				if err != nil {
					return nil
				}
				if t.Kind == sqltoken.EOF {
					break
				}
				if t.Kind == kind && t.Flags&(sqltoken.Escaped|sqltoken.DollarQuoted|sqltoken.Joined) == 0 {
					changed = append(append(changed, b[last:t.Start]...), value...)
					last = t.End
				}
			}
			out = append(out, string(append(changed, b[last:]...)))
		}
	}
	return out
}

// Equal keys must mean equal verdicts, since the verdict of one text is used for
// all texts with its key. (pg_query's fingerprint alone may tell localtime(1) from
// localtime(2); nothing is decided by it.)
func TestTextsOfOneTemplateHaveOneVerdict(t *testing.T) {
	scanner := sqltoken.NewScanner(sqltoken.Secret{1})
	opts := sqltoken.Options{ServerMajor: NewestMajor}
	compared := 0
	for _, e := range table(t) {
		r, err := scanner.Scan([]byte(e.text), &opts)
		if err != nil {
			continue
		}
		want := Judge(e.text, anyRelation{})
		for _, text := range variants(e.text) {
			rv, err := scanner.Scan([]byte(text), &opts)
			if err != nil || rv.Key != r.Key || text == e.text {
				continue
			}
			compared++
			if got := Judge(text, anyRelation{}); got.Kind != want.Kind || got.Effects != want.Effects {
				t.Errorf("one key, two verdicts:\n\t%s: %+v\n\t%s: %+v", e.text, want, text, got)
			}
		}
	}
	if compared < 500 {
		t.Fatalf("only %d variants compared", compared)
	}
}
