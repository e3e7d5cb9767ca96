package tokencheck

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// piece is a token with its text.
type piece struct {
	sqltoken.Token
	text string
	// glued is set if no white space or comment stands before the token.
	glued bool
}

// pieces returns the tokens of text without comments, ok unless text has none.
func pieces(text string) (all []piece, ok bool) {
	lx := sqltoken.NewLexer([]byte(text), serverMajor)
	end := 0
	for {
		tok, err := lx.Next()
		if err != nil {
			return nil, false
		}
		if tok.Kind == sqltoken.EOF {
			return all, true
		}
		if tok.IsComment() {
			continue
		}
		all = append(all, piece{tok, text[tok.Start:tok.End], tok.Start == end && end > 0})
		end = tok.End
	}
}

// variant writes a statement again with other white space, comments, letter case and constants,
// each constant of the kind it was. Its template is the same.
func variant(rng *rand.Rand, all []piece) string {
	var b strings.Builder
	var prev piece
	for i, p := range all {
		glued := p.glued && rng.IntN(2) == 0
		switch {
		case prev.Kind == sqltoken.NChar:
			p.text, glued = quoted(rng), true
		case isFloatPrecision(all, i):
		case p.IsLiteral():
			p.text, glued = constant(rng, p), false
		case p.Kind == sqltoken.Word:
			p.text = recase(rng, p.text)
		}
		if i > 0 && !glued && prev.Kind != sqltoken.NChar {
			strs := prev.IsLiteral() && p.IsLiteral()
			b.WriteString(space(rng, strs))
		}
		if prev.IsLiteral() && p.glued && glued {
			b.WriteByte(' ')
		}
		b.WriteString(p.text)
		prev = p
	}
	return b.String()
}

// isFloatPrecision reports whether token i is the n of float(n), which is no plain constant.
func isFloatPrecision(all []piece, i int) bool {
	return i >= 2 && all[i].Kind == sqltoken.Integer && all[i-1].text == "(" &&
		all[i-2].Kind == sqltoken.Word && strings.EqualFold(all[i-2].text, "float")
}

// space returns something that parts two tokens: not a comment at once, which would be read otherwise
// after an operator, and without a newline if that would join strings.
func space(rng *rand.Rand, noNewline bool) string {
	choices := []string{" ", "\t", "  ", " /* c */ ", " /* 'a' /* $$ */ */", " /**/", "\n", "\r\n", " \f", " -- 'c'\n", " --\n "}
	if noNewline {
		choices = choices[:6]
	}
	return choices[rng.IntN(len(choices))]
}

func recase(rng *rand.Rand, word string) string {
	b := []byte(word)
	for i, c := range b {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if letter && rng.IntN(2) == 0 {
			b[i] = c ^ 0x20
		}
	}
	return string(b)
}

// constant returns another constant of the kind of p.
func constant(rng *rand.Rand, p piece) string {
	switch p.Kind {
	case sqltoken.String:
		return pick(rng, quoted(rng), `E'a\nb\'c'`, `e'\u00e9\x41'`, "$$it's$$", "$q$ $$ $q$", "''")
	case sqltoken.BitString:
		return pick(rng, "B'0'", "b''", "B'0110'")
	case sqltoken.HexString:
		return pick(rng, "X'0'", "x''", "X'fF'")
	case sqltoken.Integer:
		return pick(rng, "0", "1", "0x7fffffff", "2147483647", "1_000", "0b1", "0o17", fmt.Sprint(rng.Int32()))
	case sqltoken.Float:
		if p.Flags&sqltoken.Whole != 0 {
			return p.text
		}
		return pick(rng, "1.5", ".5", "1.", "1e10", "1.5E-3", "0.0")
	}
	return p.text
}

func quoted(rng *rand.Rand) string {
	return pick(rng, "'x'", "''", "'it''s'", "'--'", "'/*'", `'\'`, "'é'", "'2020-01-01'", "'$$'")
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// mutant writes a statement again with something changed that may change its meaning.
func mutant(rng *rand.Rand, all []piece) string {
	changed := append([]piece(nil), all...)
	i := rng.IntN(len(changed))
	switch rng.IntN(6) {
	case 0:
		changed = append(changed[:i], changed[i+1:]...)
	case 1:
		changed[i] = changed[rng.IntN(len(changed))]
	case 2:
		j := rng.IntN(len(changed))
		changed[i], changed[j] = changed[j], changed[i]
	case 3:
		changed[i].text = `"` + strings.ReplaceAll(changed[i].text, `"`, `""`) + `"`
	default:
		changed[i].text = pick(rng, "1", "1.5", "'x'", "B'1'", "X'1'", "$1", "$2", "2147483648",
			"9223372036854775808", "99999999999999999999", "-", "+", "*", "=", "<>", "!=", "||", "::", ":=", "=>",
			"a", `"a"`, "A", `"A"`, "n", "N'x'", "null", "true", "select", "float", "float(10)", "float(30)",
			"float(100)", "int", "text", "from", "as", "(", ")", ",", ".", ";", "[", "]", "for update", "into x",
			"distinct", "all", "only", "with", "u&'x'", `u&"x"`, "uescape '!'", "e'x'", "e'\\xff'", "'a'\n'b'", "interval")
	}
	var b strings.Builder
	for i, p := range changed {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(p.text)
	}
	return b.String()
}
