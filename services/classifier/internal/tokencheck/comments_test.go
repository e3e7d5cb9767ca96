package tokencheck

import (
	"errors"
	"testing"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// TestCommentsAreBlanked pins why a text goes to pg_query without its comments: PostgreSQL reads
// each of these, pg_query only once the comments are blanked.
func TestCommentsAreBlanked(t *testing.T) {
	for _, text := range []string{
		"SELECT a NOT /* c */ IN (1)",
		"SELECT a NOT -- c\n BETWEEN 1 AND 2",
		"SELECT a FROM t ORDER BY a NULLS /* c */ FIRST",
		"SELECT 'a' -- c\n'b'",
		"SELECT E'a\\n' -- c\n -- d\n'b'",
	} {
		if _, err := pg_query.Parse(text); err == nil {
			t.Errorf("pg_query reads %q now: blanking may be needless", text)
		}
		bare, err := sqltoken.AppendWithoutComments(nil, []byte(text), serverMajor)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if _, err := pg_query.Parse(string(bare)); err != nil {
			t.Errorf("%q, blanked to %q: %v", text, bare, err)
		}
	}
}

// TestBlankingKeepsTheTree checks that what pg_query reads with comments it reads the same without.
func TestBlankingKeepsTheTree(t *testing.T) {
	for _, text := range corpus(t) {
		parsed, err := pg_query.Parse(text)
		if err != nil {
			continue
		}
		bare, err := sqltoken.AppendWithoutComments(nil, []byte(text), serverMajor)
		if errors.Is(err, sqltoken.ErrParameter) {
			continue // stricter on purpose, see compareTokens
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		again, err := pg_query.Parse(string(bare))
		if err != nil {
			t.Errorf("%q: %v", bare, err)
			continue
		}
		if parsed.String() != again.String() {
			t.Errorf("%q and %q have different trees", text, bare)
		}
	}
}
