package session

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// dialect is how the session's servers read what servers do not read all alike.
type dialect struct {
	// major is their release; 0: not known.
	major int
	// ascii says that they change the case of ASCII letters only, in names without quotes
	// (PostgreSQL documentation: "Identifiers and Key Words").
	ascii bool
}

// anyDialect is that of servers which have taken a text for what it is.
var anyDialect = dialect{major: sqltoken.FirstMajorNumbers, ascii: true}

func (s *Session) dialect() dialect {
	as := dialect{major: s.major()}
	for _, p := range s.shown {
		as.ascii = as.ascii || p.Name == "server_encoding" && p.Value == "UTF8"
	}
	return as
}

// maxCommented is the longest text that is looked at as one with its comments, in bytes.
const maxCommented = 4 << 10

// mayDeallocate reports whether a text may be a DEALLOCATE or a DISCARD, behind white space,
// empty statements and comments. Most are told by this.
func mayDeallocate(text []byte) bool {
	if len(text) > maxCommented {
		return false
	}
	for i, c := range text {
		switch c {
		case ' ', '\t', '\r', '\n', '\f', '\v', ';':
			continue
		case '-', '/':
			return true
		}
		text = text[i:]
		return len(text) > 3 && (bytes.EqualFold(text[:3], []byte("dea")) || bytes.EqualFold(text[:3], []byte("dis")))
	}
	return false
}

// deallocate reads a text that is one DEALLOCATE or DISCARD ALL.
func (as dialect) deallocate(text []byte) (local, bool) {
	lexer := sqltoken.NewLexer(text, as.major)
	toks := make([]sqltoken.Token, 0, 4)
	for ended := false; ; {
		t, err := lexer.Next()
		switch {
		case err != nil:
			return local{}, false
		case t.IsComment():
		case t.Kind == sqltoken.EOF:
			return as.local(text, toks)
		case ends(text, t):
			ended = len(toks) > 0
		case ended || len(toks) == 0 && !isWord(text, t, "deallocate") && !isWord(text, t, "discard"):
			return local{}, false
		default:
			toks = append(toks, t)
		}
	}
}

// local reads a statement, of which these are the tokens.
func (as dialect) local(text []byte, toks []sqltoken.Token) (local, bool) {
	switch {
	case len(toks) == 2 && isWord(text, toks[0], "discard") && isWord(text, toks[1], "all"):
		return local{kind: discardAll}, true
	case len(toks) == 3 && isWord(text, toks[1], "prepare"):
		toks = []sqltoken.Token{toks[0], toks[2]}
	}
	switch {
	case len(toks) != 2 || !isWord(text, toks[0], "deallocate"):
		return local{}, false
	case isWord(text, toks[1], "all"):
		return local{kind: deallocateAll}, true
	}
	name, ok := as.name(text, toks[1])
	return local{kind: deallocate, name: name}, ok
}

// name reads an identifier as servers fold it.
func (as dialect) name(text []byte, t sqltoken.Token) (string, bool) {
	src := string(text[t.Start:t.End])
	switch t.Kind {
	case sqltoken.Word:
		if !as.ascii && strings.ContainsFunc(src, func(r rune) bool { return r >= 0x80 }) {
			return "", false
		}
		return cut(lower(src)), true
	case sqltoken.QuotedIdent:
		src = src[len(`"`) : len(src)-1]
	case sqltoken.UnicodeIdent:
		if src = src[len(`U&"`) : len(src)-1]; strings.Contains(src, `\`) {
			return "", false
		}
	default:
		return "", false
	}
	return cut(strings.ReplaceAll(src, `""`, `"`)), src != ""
}

// longest is how much of a name counts, in bytes (PostgreSQL documentation, "Identifiers and Key
// Words").
const longest = 63

// cut shortens a name to what counts, which is whole characters.
func cut(name string) string {
	if len(name) <= longest {
		return name
	}
	n := longest
	for n > 0 && !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n]
}

// lower changes the case of ASCII letters.
func lower(name string) string {
	b := []byte(name)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// deallocates gives the names in the DEALLOCATEs of the text at the head, which a server is to
// execute, in order; empty for one that is not understood.
func (s *Session) deallocates(text []byte) []string {
	if s.verdict.Effects&(verdict.Session|verdict.ResetsSession) == 0 || len(text) > s.env.Settings().MaxText || !s.legible(text) {
		return nil
	}
	return namesIn(s.dialect().uses(text), toDeallocate)
}

// deallocatesParsed reports whether the simple query at the head deallocates what came with
// Parse, which the connection in use does not have under the client's name.
func (s *Session) deallocatesParsed(typ byte, msg []byte) bool {
	if typ != wire.Query || len(s.named) == 0 || !s.verdict.Effects.Has(verdict.Session) {
		return false
	}
	if text, ok := wire.QueryText(msg); ok {
		return slices.ContainsFunc(s.deallocates(text), func(name string) bool { return s.named[name] != nil })
	}
	return false
}

// ranDeallocate notes that a server has executed the DEALLOCATE of a name.
func (s *Session) ranDeallocate(name string) {
	if name != "" {
		s.define(name, nil)
		delete(s.held[s.at].statements.sql, name)
	}
}

// unpackLocal reads what has been read before, by a session that has been moved.
func unpackLocal(text []byte) local {
	if os, ok := settings.ParseOwn(text); ok && len(os) == 1 {
		return local{kind: ownParameter, own: &os[0]}
	}
	l, _ := anyDialect.deallocate(text)
	return l
}

func isWord(text []byte, t sqltoken.Token, word string) bool {
	return t.Kind == sqltoken.Word && bytes.EqualFold(text[t.Start:t.End], []byte(word))
}

func ends(text []byte, t sqltoken.Token) bool { return t.Kind == sqltoken.Self && text[t.Start] == ';' }
