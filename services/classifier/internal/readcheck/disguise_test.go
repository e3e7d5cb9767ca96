package readcheck

import (
	"fmt"
	"math/rand/v2"
	"strings"

	pgquery "github.com/pganalyze/pg_query_go/v6"
)

// disguise writes a text again in another guise, which the server reads the same but for
// the values of constants; the text itself if it has none.
func disguise(rng *rand.Rand, text string) string {
	scanned, err := pgquery.Scan(text)
	if err != nil || len(scanned.GetTokens()) == 0 {
		return text
	}
	var b strings.Builder
	end := 0
	for i, t := range scanned.GetTokens() {
		word := text[t.GetStart():t.GetEnd()]
		before := text[end:t.GetStart()]
		end = int(t.GetEnd())
		switch {
		case t.GetToken() == pgquery.Token_SQL_COMMENT, t.GetToken() == pgquery.Token_C_COMMENT:
			b.WriteString(before + word)
			continue
		case i > 0 && strings.TrimSpace(before) == "" && before != "" && !strings.Contains(before, "\n"):
			before = pick(rng, " ", "  ", "\t", "\r\n", " \f ", " /* c */ ", "/* größer /* 'x' */ */", " -- ; $$ '\n", "\n--\n")
		}
		b.WriteString(before)
		next := pgquery.Token_NUL
		if i+1 < len(scanned.GetTokens()) {
			next = scanned.GetTokens()[i+1].GetToken()
		}
		b.WriteString(guise(rng, t, word, next))
	}
	b.WriteString(text[end:])
	return b.String() + pick(rng, "", "", " ", ";", " ; ", "\n-- é", "/* 💡 */")
}

// guise gives a token in another form.
func guise(rng *rand.Rand, t *pgquery.ScanToken, word string, next pgquery.Token) string {
	switch {
	case t.GetToken() == pgquery.Token_SCONST && next != pgquery.Token_UESCAPE:
		return literal(rng, word)
	case t.GetToken() == pgquery.Token_ICONST && rng.IntN(3) == 0 && strings.Trim(word, "0123456789") == "":
		return fmt.Sprint(rng.IntN(12))
	case t.GetKeywordKind() != pgquery.KeywordKind_NO_KEYWORD:
		return recase(rng, word)
	case t.GetToken() == pgquery.Token_IDENT && word[0] != '"' && next != pgquery.Token_SCONST && lower(word):
		if rng.IntN(3) == 0 {
			return `"` + strings.ToLower(word) + `"`
		}
		return recase(rng, word)
	}
	return word
}

// lower reports whether all letters of a name are those that are folded alike everywhere.
func lower(word string) bool {
	return strings.Trim(strings.ToLower(word), "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// literal writes a string constant in another way, sometimes with another value.
func literal(rng *rand.Rand, word string) string {
	if word[0] != '\'' || strings.ContainsAny(word[1:len(word)-1], `'\`) || strings.ContainsAny(word, "\r\n") {
		return word
	}
	value := word[1 : len(word)-1]
	if rng.IntN(8) == 0 {
		value = pick(rng, "", "x", "Müller", "日本", "💡", "it''s", "--", "/*", "$1", "%")
	}
	switch rng.IntN(5) {
	case 0:
		return "E'" + value + "'"
	case 1:
		if !strings.Contains(value, "$") {
			return "$q$" + strings.ReplaceAll(value, "''", "'") + "$q$"
		}
	case 2:
		return "U&'" + value + "'"
	}
	return "'" + value + "'"
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

func pick(rng *rand.Rand, of ...string) string { return of[rng.IntN(len(of))] }
