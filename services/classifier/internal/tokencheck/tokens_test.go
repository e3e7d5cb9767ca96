package tokencheck

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// serverMajor is the release of PostgreSQL that pg_query is made of.
const serverMajor = 17

// TestTokens compares the tokens of every statement of the corpus, whole and cut off after each
// byte: the cut texts are mostly unterminated or end in the middle of an operator or a number.
func TestTokens(t *testing.T) {
	for _, text := range corpus(t) {
		for n := len(text); n > 0; n-- {
			if err := compareTokens(text[:n]); err != nil {
				t.Errorf("%q: %v", text[:n], err)
				break
			}
			if testing.Short() {
				break
			}
		}
	}
}

// TestTokenPairs puts every two of a list of difficult pieces side by side.
func TestTokenPairs(t *testing.T) {
	pieces := strings.Fields(`a _ é u U& e E n b x u&"q" "q" "" "a""b" 'q' '' e'\'' e'\u0041' u&'q' b'0' x'f' n'q'
		1 1. .1 1.5 1e5 1e 1e+ 1_0 1_ 0x1f 0x 0b1 0o7 2147483647 2147483648 $1 $ $$q$$ $a$q$a$ $a
		+ - * / % ^ < > = ~ ! @ # & | ? <= >= <> != => :: := : . .. ... , ; ( ) [ ] { } \
		-- /* */ /**/ --q /*q*/ +- -+ @- =- <-- /-- @/*`)
	pieces = append(pieces, " ", "\n", "\r", "\t", "\f", "\v", "--q\n", "'q'\n", "\n'q'", "`", "\u00a0", "\x01")
	for _, a := range pieces {
		for _, b := range pieces {
			for _, c := range []string{"", "'", "1", "a", "\n'r'", "*/", "-"} {
				if err := compareTokens(a + b + c); err != nil {
					t.Errorf("%q: %v", a+b+c, err)
				}
			}
		}
	}
}

func FuzzTokens(f *testing.F) {
	for _, text := range corpus(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
			t.Skip("PostgreSQL never scans such a text")
		}
		if err := compareTokens(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// joinedOverComment finds a string that goes on behind a line comment. PostgreSQL joins its pieces
// ("whitespace" in its scanner includes comments); pg_query, changed to return comments as tokens,
// does not. TestJoinedOverComment in package sqltoken pins PostgreSQL's way.
var joinedOverComment = regexp.MustCompile(`'[ \t\f\v\n\r]*--[^\n\r]*[\n\r]`)

// compareTokens returns an error if sqltoken and PostgreSQL read text differently.
func compareTokens(text string) error {
	theirs, theirErr := pg_query.Scan(text)
	lx := sqltoken.NewLexer([]byte(text), serverMajor)
	byteEscape := false
	for i := 0; ; i++ {
		tok, err := lx.Next()
		switch {
		case errors.Is(err, sqltoken.ErrParameter):
			return nil // stricter on purpose: releases differ
		case err != nil && theirErr == nil && !joinedOverComment.MatchString(text):
			return fmt.Errorf("refused with %q, PostgreSQL reads it", err)
		case err != nil:
			return nil
		}
		byteEscape = byteEscape || tok.Flags&sqltoken.ByteEscape != 0
		if tok.Flags&sqltoken.Joined != 0 && joinedOverComment.MatchString(text[tok.Start:tok.End]) {
			return nil
		}
		if theirErr != nil {
			if tok.Kind != sqltoken.EOF {
				continue
			}
			if byteEscape {
				return nil // whether the bytes are valid is left to PostgreSQL
			}
			return fmt.Errorf("accepted, PostgreSQL refuses it: %w", theirErr)
		}
		if tok.Kind == sqltoken.EOF {
			if i < len(theirs.Tokens) {
				return fmt.Errorf("ends after %d tokens, PostgreSQL's next is %v", i, theirs.Tokens[i])
			}
			return nil
		}
		if i >= len(theirs.Tokens) {
			return fmt.Errorf("token %d %+v, PostgreSQL ends before it", i, tok)
		}
		want := theirs.Tokens[i]
		if tok.Start != int(want.Start) || tok.End != int(want.End) || !sameKind(tok, want, text) {
			return fmt.Errorf("token %d is %+v, PostgreSQL's is %v", i, tok, want)
		}
	}
}

func sameKind(tok sqltoken.Token, want *pg_query.ScanToken, text string) bool {
	first := text[tok.Start]
	switch want.Token {
	case pg_query.Token_IDENT:
		if first == '"' {
			return tok.Kind == sqltoken.QuotedIdent
		}
		return tok.Kind == sqltoken.Word
	case pg_query.Token_NCHAR:
		if tok.End-tok.Start == 1 {
			return tok.Kind == sqltoken.NChar
		}
		return tok.Kind == sqltoken.Word
	}
	if want.KeywordKind != pg_query.KeywordKind_NO_KEYWORD {
		return tok.Kind == sqltoken.Word
	}
	if kind, ok := kinds[want.Token]; ok {
		return tok.Kind == kind
	}
	if want.Token != pg_query.Token(first) || tok.End-tok.Start != 1 {
		return false
	}
	if strings.IndexByte(",()[].;:+-*/%^<>=", first) >= 0 {
		return tok.Kind == sqltoken.Self
	}
	return tok.Kind == sqltoken.Other
}

var kinds = map[pg_query.Token]sqltoken.Kind{
	pg_query.Token_UIDENT:         sqltoken.UnicodeIdent,
	pg_query.Token_SCONST:         sqltoken.String,
	pg_query.Token_USCONST:        sqltoken.UnicodeString,
	pg_query.Token_BCONST:         sqltoken.BitString,
	pg_query.Token_XCONST:         sqltoken.HexString,
	pg_query.Token_ICONST:         sqltoken.Integer,
	pg_query.Token_FCONST:         sqltoken.Float,
	pg_query.Token_PARAM:          sqltoken.Param,
	pg_query.Token_Op:             sqltoken.Operator,
	pg_query.Token_TYPECAST:       sqltoken.Typecast,
	pg_query.Token_DOT_DOT:        sqltoken.DotDot,
	pg_query.Token_COLON_EQUALS:   sqltoken.ColonEquals,
	pg_query.Token_EQUALS_GREATER: sqltoken.EqualsGreater,
	pg_query.Token_LESS_EQUALS:    sqltoken.LessEquals,
	pg_query.Token_GREATER_EQUALS: sqltoken.GreaterEquals,
	pg_query.Token_NOT_EQUALS:     sqltoken.NotEquals,
	pg_query.Token_SQL_COMMENT:    sqltoken.LineComment,
	pg_query.Token_C_COMMENT:      sqltoken.BlockComment,
}
