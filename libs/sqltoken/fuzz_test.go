package sqltoken

import (
	"bytes"
	"errors"
	"testing"
)

// fuzzSeeds are texts with every kind of token; the classifier's tokencheck has the larger corpus.
var fuzzSeeds = []string{
	selectText,
	"/* pgpilot: primary, fence=x */ UPDATE t SET a = -1.5e3, b = $1 WHERE c = 'it''s' -- end",
	"SELECT E'a\\u00e9\\xff\\'', $$x$$, $a$ $$ $a$, U&'x', U&\"y\" UESCAPE '!', B'1', X'f', N'q'",
	"SELECT 'a' -- c\n'b', 0x1f, 1_0, 2147483648, 1..2, a::float(25), b:=c, d=>e, \"F\"\"g\"; SELECT 2",
	"CREATE FUNCTION f() BEGIN ATOMIC SELECT 1; END",
	"((values (1))) /* /* nested */ */",
}

// FuzzScan checks what must hold for any text: no panic, tokens in order and within the text, the
// same result each time and from a used Scanner, and the promises of the key.
func FuzzScan(f *testing.F) {
	for _, text := range fuzzSeeds {
		f.Add([]byte(text), uint8(17))
		f.Add([]byte(text), uint8(15))
	}
	used := NewScanner(testSecret)
	f.Fuzz(func(t *testing.T, text []byte, major uint8) {
		opts := Options{ServerMajor: int(major)}
		before := bytes.Clone(text)
		res, err := NewScanner(testSecret).Scan(text, &opts)
		again, err2 := used.Scan(text, &opts)
		if !bytes.Equal(before, text) {
			t.Fatal("Scan changes its text")
		}
		if !errors.Is(err2, err) || again.Key != res.Key || again.Statements != res.Statements {
			t.Fatalf("a used Scanner answers %+v, %v; a new one %+v, %v", again, err2, res, err)
		}
		checkTokens(t, text, opts.ServerMajor)
		if err != nil {
			return
		}
		for _, h := range res.Hints {
			if h.Item.Start < 0 || h.Item.Start >= h.Item.End || h.Item.End > len(text) ||
				h.Value.Start < h.Item.Start || h.Value.Start > h.Value.End || h.Value.End != h.Item.End {
				t.Fatalf("hint %+v", h)
			}
		}
		if res.FullText {
			return
		}
		for _, other := range [][]byte{respaced(text, &opts), revalued(text, &opts)} {
			got, err := NewScanner(testSecret).Scan(other, &opts)
			if err != nil || got.FullText || got.Key != res.Key {
				t.Fatalf("%q and %q have different keys (%v)", text, other, err)
			}
		}
	})
}

func checkTokens(t *testing.T, text []byte, major int) {
	lx := NewLexer(text, major)
	last := Token{}
	for {
		tok, err := lx.Next()
		if err != nil {
			return
		}
		if tok.Start < last.End || tok.End > len(text) || tok.End == tok.Start && tok.Kind != EOF {
			t.Fatalf("token %+v behind %+v", tok, last)
		}
		if value, ok := lx.AppendString(nil, tok); ok && len(value) > tok.End-tok.Start {
			t.Fatalf("the value of %q is longer than itself: %q", text[tok.Start:tok.End], value)
		}
		if tok.Kind == EOF {
			break
		}
		last = tok
	}
	bare, err := AppendWithoutComments(nil, text, major)
	if err != nil || len(bare) != len(text) {
		t.Fatalf("blanked to %q, %v", bare, err)
	}
}

// rewrite puts a text together again from its tokens, between says what goes before each.
func rewrite(text []byte, opts *Options, token func(t Token) []byte, between func(last, t Token) string) []byte {
	lx := NewLexer(text, opts.ServerMajor)
	var out []byte
	last := Token{}
	for {
		t, _ := lx.Next()
		if t.Kind == EOF {
			return out
		}
		if t.IsComment() {
			continue
		}
		if last.Kind != NChar {
			out = append(out, between(last, t)...)
		}
		out = append(out, token(t)...)
		last = t
	}
}

// respaced has a comment and a newline between all tokens, but for those that would be joined.
func respaced(text []byte, opts *Options) []byte {
	return rewrite(text, opts,
		func(t Token) []byte { return text[t.Start:t.End] },
		func(last, t Token) string {
			if isString(last) && isString(t) {
				return " /* c */ "
			}
			return "\n/* c */\r\n"
		})
}

// revalued has other constants of the same kinds.
func revalued(text []byte, opts *Options) []byte {
	float := 0
	return rewrite(text, opts,
		func(t Token) []byte {
			raw := text[t.Start:t.End]
			precision := float == 2
			switch {
			case t.Kind == Word && equalFold(raw, "float"):
				float = 1
			case float == 1 && t.Kind == Self && raw[0] == '(':
				float = 2
			default:
				float = 0
			}
			switch {
			case t.Kind == String:
				return []byte("'it''s'")
			case t.Kind == BitString:
				return []byte("b'10'")
			case t.Kind == HexString:
				return []byte("x'10'")
			case t.Kind == Integer && !precision:
				return []byte("4711")
			case t.Kind == Float && t.Flags&Whole == 0:
				return []byte("4.5e6")
			}
			return raw
		},
		func(last, t Token) string { return " " })
}
