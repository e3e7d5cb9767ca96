package sqltoken

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

var kindNames = map[Kind]string{
	Word: "word", NChar: "nchar", QuotedIdent: "ident", UnicodeIdent: "uident", String: "string",
	UnicodeString: "ustring", BitString: "bits", HexString: "hex", Integer: "int", Float: "float",
	Param: "param", Operator: "op", Typecast: "cast", DotDot: "dotdot", ColonEquals: "colonequals",
	EqualsGreater: "arrow", LessEquals: "le", GreaterEquals: "ge", NotEquals: "ne", Self: "self",
	Other: "other", LineComment: "line", BlockComment: "block",
}

// tokens writes the tokens of text as kind(text) parted by spaces; an error ends the list.
func tokens(text string, major int) string {
	lx := NewLexer([]byte(text), major)
	var out []string
	for {
		tok, err := lx.Next()
		if err != nil {
			return strings.Join(append(out, fmt.Sprintf("error(%v)", err)), " ")
		}
		if tok.Kind == EOF {
			return strings.Join(out, " ")
		}
		out = append(out, fmt.Sprintf("%s(%s)", kindNames[tok.Kind], text[tok.Start:tok.End]))
	}
}

func TestTokens(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{" \t\r\n\f\v", ""},
		{"Select _a1$ é", "word(Select) word(_a1$) word(é)"},
		{`"a""b" U&"c" u & v`, `ident("a""b") uident(U&"c") word(u) op(&) word(v)`},
		{`'' 'it''s' '\'`, `string('') string('it''s') string('\')`},
		{`E'\'' e'\\' E'a''b'`, `string(E'\'') string(e'\\') string(E'a''b')`},
		{"b'01' X'f' n'x' N 'y' U&'z'", "bits(b'01') hex(X'f') nchar(n) string('x') word(N) string('y') ustring(U&'z')"},
		{"B'0''1'", "bits(B'0') string('1')"},
		{"'a'\n'b' 'c'", "string('a'\n'b') string('c')"},
		{"'a' /* */\n'b'", "string('a') block(/* */) string('b')"},
		{"'a'\n- 'b'", "string('a') self(-) string('b')"},
		{"$$a$$ $x$ $$ $X$ $x$ $1 $", "string($$a$$) string($x$ $$ $X$ $x$) param($1) other($)"},
		{"$a b$c$", "other($) word(a) word(b$c$)"},
		{"$a$$b$a$", "string($a$$b$a$)"},
		{"$1$$x$$", "param($1) string($$x$$)"},
		{"1 1. .5 1.5e-3 1e10 1..2 1.5.2", "int(1) float(1.) float(.5) float(1.5e-3) float(1e10) int(1) dotdot(..) int(2) float(1.5) float(.2)"},
		{"2147483647 2147483648 0x7fffffff 0x80000000 0o17 0b1 1_000", "int(2147483647) float(2147483648) int(0x7fffffff) float(0x80000000) int(0o17) int(0b1) int(1_000)"},
		{"a::int b:=c d=>e f<=g h>=i j<>k l!=m", "word(a) cast(::) word(int) word(b) colonequals(:=) word(c) word(d) arrow(=>) word(e) word(f) le(<=) word(g) word(h) ge(>=) word(i) word(j) ne(<>) word(k) word(l) ne(!=) word(m)"},
		{"a=-1 b@-1 c+-d e*/f", "word(a) self(=) self(-) int(1) word(b) op(@-) int(1) word(c) self(+) self(-) word(d) word(e) op(*/) word(f)"},
		{"a+-+- -+b *+-+@ <+- -+/**/-+", "word(a) self(+) self(-) self(+) self(-) self(-) self(+) word(b) op(*+-+@) self(<) self(+) self(-) self(-) self(+) block(/**/) self(-) self(+)"},
		{"=>- <=+- ||- ++", "arrow(=>) self(-) le(<=) self(+) self(-) op(||-) self(+) self(+)"},
		{"a+/*c*/b -- d\n<--e", "word(a) self(+) block(/*c*/) word(b) line(-- d) self(<) line(--e)"},
		{"/* /* */ */ /**/ /*/ */ 1", "block(/* /* */ */) block(/**/) block(/*/ */) int(1)"},
		{"a[1:2].b;{", "word(a) self([) int(1) self(:) int(2) self(]) self(.) word(b) self(;) other({)"},
		{"/* x", "error(unterminated /* comment)"},
		{"'x", "error(unterminated quoted string)"},
		{`e'x\`, "error(unterminated quoted string)"},
		{"$a$ $b$", "error(unterminated dollar-quoted string)"},
		{`"x`, "error(unterminated quoted identifier)"},
		{`""`, "error(zero-length delimited identifier)"},
		{`U&""`, "error(zero-length delimited identifier)"},
		{`E'\u12'`, "error(invalid Unicode escape)"},
		{`E'\ud83d'`, "error(invalid Unicode escape)"},
		{`E'\ude00'`, "error(invalid Unicode escape)"},
		{`E'\U00110000'`, "error(invalid Unicode escape)"},
		{"1a", "error(invalid number or trailing junk after numeric literal)"},
		{"0x", "error(invalid number or trailing junk after numeric literal)"},
		{"1e+", "error(invalid number or trailing junk after numeric literal)"},
		{"1e5$1", "error(invalid number or trailing junk after numeric literal)"},
		{"$1a", "error(invalid parameter number or trailing junk after parameter)"},
		{"$2147483648", "error(invalid parameter number or trailing junk after parameter)"},
		{strings.Repeat("@", 63), "op(" + strings.Repeat("@", 63) + ")"},
		{strings.Repeat("@", 64), "error(operator too long)"},
	} {
		if got := tokens(tt.text, 17); got != tt.want {
			t.Errorf("%q:\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

// TestTokensByRelease holds what PostgreSQL 16 reads and 15 does not.
func TestTokensByRelease(t *testing.T) {
	const junk = "error(invalid number or trailing junk after numeric literal)"
	for _, tt := range []struct{ text, before, since string }{
		{"0x1f", junk, "int(0x1f)"},
		{"0b1", junk, "int(0b1)"},
		{"1_000", junk, "int(1_000)"},
		{"1.5_0", junk, "float(1.5_0)"},
		{"a\vb", "word(a) other(\v) word(b)", "word(a) word(b)"},
		{"'a'\v\n'b'", "string('a') other(\v) string('b')", "string('a'\v\n'b')"},
	} {
		for major, want := range map[int]string{0: tt.before, 15: tt.before, 16: tt.since, 18: tt.since} {
			if got := tokens(tt.text, major); got != want {
				t.Errorf("%q on release %d: got %s, want %s", tt.text, major, got, want)
			}
		}
	}
}

// TestJoinedOverComment pins PostgreSQL's way where pg_query, with which everything else is
// compared, differs: line comments do not keep strings from being joined.
func TestJoinedOverComment(t *testing.T) {
	for _, text := range []string{
		"'a' -- it's\n'b'",
		"'a'\n-- b\n  -- c\r'd'",
		"B'0' --\n'1'",
		"E'a\\'' -- c\n'\\'b'",
	} {
		if got, want := tokens(text, 15), fmt.Sprintf("(%s)", text); !strings.HasSuffix(got, want) {
			t.Errorf("%q: got %s, want one string", text, got)
		}
	}
}

func TestAppendString(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"''", ""},
		{"'it''s'", "it's"},
		{`'a\n'`, `a\n`},
		{`E'a\n\t\'\\''\q'`, "a\n\t'\\'q"},
		{`E'\x41\102\u00e9\U0001F600\ud83d\ude00'`, "AB\u00e9\U0001F600\U0001F600"},
		{`E'\x \xg'`, "x xg"},
		{"$$it's$$", "it's"},
		{"$a$ $$ $a$", " $$ "},
		{"'a' -- it's\n'b'\n''", "ab"},
		{"E'a\\n'\n'\\t'", "a\n\t"},
		{"'é'", "é"},
	} {
		lx := NewLexer([]byte(tt.text), 17)
		tok, err := lx.Next()
		if err != nil || tok.End != len(tt.text) {
			t.Fatalf("%q is %+v, %v", tt.text, tok, err)
		}
		if got, ok := lx.AppendString([]byte("+"), tok); !ok || string(got) != "+"+tt.want {
			t.Errorf("%q: got %q, %v", tt.text, got, ok)
		}
	}
	for _, text := range []string{"1", "B'1'", "U&'x'", `E'\xff'`, "a"} {
		lx := NewLexer([]byte(text), 17)
		tok, err := lx.Next()
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := lx.AppendString(nil, tok); ok {
			t.Errorf("%q has the value %q", text, got)
		}
	}
}

func TestAppendWithoutComments(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"a /* b */ c -- d\ne", "a         c     \ne"},
		{"/* a\n b */1", "    \n     1"},
		{"'/* a */' \"--b\" $$/* c */$$", "'/* a */' \"--b\" $$/* c */$$"},
		{"'a' -- it's\n'b'", "'a'        \n'b'"},
		{"'a'\n/* c */'b' /* d */ e", "'a'\n/* c */'b'         e"},
		{"+--x", "+   "},
	} {
		got, err := AppendWithoutComments([]byte(">"), []byte(tt.text), 17)
		if err != nil || string(got) != ">"+tt.want {
			t.Errorf("%q: got %q, %v, want %q", tt.text, got, err, tt.want)
		}
	}
	if got, err := AppendWithoutComments([]byte("x"), []byte("/*"), 17); !errors.Is(err, ErrUnterminatedComment) || string(got) != "x" {
		t.Errorf("an unterminated comment gives %q, %v", got, err)
	}
}

// A client may send as many signs in a row as a text holds. If each had the rest of them looked at,
// this text would take an hour.
func TestALongRunOfSignsIsLookedAtOnce(t *testing.T) {
	lx := NewLexer([]byte(strings.Repeat("+-", 1<<20)), FirstMajor)
	for n := 0; ; n++ {
		tok, err := lx.Next()
		if err != nil {
			t.Fatal(err)
		}
		if tok.Kind == EOF {
			if n != 2<<20 {
				t.Fatalf("%d tokens", n)
			}
			return
		}
	}
}
