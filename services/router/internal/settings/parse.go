package settings

import (
	"bytes"
	"strings"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// MaxText is the longest text that Parse looks into, in bytes.
const MaxText = 4 << 10

// Parse reads a statement string whose statements all change settings or channels or
// begin or end transactions. ok is false for any other, and for what is not to be set on
// another connection: what decides how statement text is read (client_encoding,
// standard_conforming_strings), SESSION AUTHORIZATION, a search_path with temporary
// tables in it, temp_buffers, which is not to be changed where there were any. The text must be one that sqltoken reads as the server does.
func Parse(text []byte) (cs []Command, ok bool) {
	if len(text) > MaxText || !begins(text) {
		return nil, false
	}
	p := newParser(text)
	for p.statement() {
		c, ok := p.command()
		if !ok {
			return nil, false
		}
		cs = append(cs, c)
	}
	return cs, p.err == nil && len(cs) > 0
}

// behindSpace gives a text from its first word or comment on. Every statement is looked at
// like this, several times, and bytes.TrimLeft would make a table of the characters each
// time.
func behindSpace(text []byte) []byte {
	for i, c := range text {
		switch c {
		case ' ', '\t', '\r', '\n', '\f', '\v', ';':
		default:
			return text[i:]
		}
	}
	return nil
}

// begins reports whether a text may begin with such a statement, or a comment.
func begins(text []byte) bool {
	text = behindSpace(text)
	if len(text) == 0 {
		return false
	}
	switch text[0] | 0x20 {
	case 's', 'r', 'b', 'c', 'e', 'a', 'p', 'l', 'u', '-' | 0x20, '/' | 0x20:
		return true
	}
	return false
}

// BeginsWithSet reports whether a text may begin with SET, or a comment.
func BeginsWithSet(text []byte) bool {
	text = behindSpace(text)
	return len(text) > 0 && (text[0] == '-' || text[0] == '/' || len(text) > 3 && bytes.EqualFold(text[:3], []byte("set")))
}

// parser takes a text apart. toks are the tokens of the statement at hand that
// have not been read.
type parser struct {
	text  []byte
	lexer sqltoken.Lexer
	toks  []sqltoken.Token
	err   error
	ended bool
}

func newParser(text []byte) *parser {
	return &parser{text: text, lexer: sqltoken.NewLexer(text, sqltoken.FirstMajor)}
}

// statement moves to the next statement that is not empty.
func (p *parser) statement() bool {
	for !p.ended && p.err == nil {
		p.toks = p.toks[:0]
		for {
			t, err := p.lexer.Next()
			if err != nil {
				p.err = err
				return false
			}
			if t.Kind == sqltoken.LineComment || t.Kind == sqltoken.BlockComment {
				continue
			}
			if t.Kind == sqltoken.EOF {
				p.ended = true
				break
			}
			if p.is(t, ";") {
				break
			}
			p.toks = append(p.toks, t)
		}
		if len(p.toks) > 0 {
			return true
		}
	}
	return false
}

func (p *parser) source(t sqltoken.Token) []byte { return p.text[t.Start:t.End] }

// is reports whether the token is the symbol.
func (p *parser) is(t sqltoken.Token, symbol string) bool {
	return t.Kind == sqltoken.Self && string(p.source(t)) == symbol
}

// peek reports whether the next token is the keyword.
func (p *parser) peek(word string) bool {
	return len(p.toks) > 0 && p.isWord(p.toks[0], word)
}

func (p *parser) isWord(t sqltoken.Token, word string) bool {
	return t.Kind == sqltoken.Word && strings.EqualFold(string(p.source(t)), word)
}

// word reads the keywords, if they are next.
func (p *parser) word(words ...string) bool {
	all := p.toks
	for _, w := range words {
		if !p.peek(w) {
			p.toks = all
			return false
		}
		p.toks = p.toks[1:]
	}
	return true
}

// symbol reads the symbol, if it is next.
func (p *parser) symbol(s string) bool {
	if len(p.toks) > 0 && p.is(p.toks[0], s) {
		p.toks = p.toks[1:]
		return true
	}
	return false
}

// identifier reads a name as PostgreSQL folds it.
func (p *parser) identifier() (string, bool) {
	if len(p.toks) == 0 {
		return "", false
	}
	t := p.toks[0]
	p.toks = p.toks[1:]
	switch src := string(p.source(t)); t.Kind {
	case sqltoken.Word:
		return lower(src), true
	case sqltoken.QuotedIdent:
		return strings.ReplaceAll(src[1:len(src)-1], `""`, `"`), true
	case sqltoken.UnicodeIdent:
		name, ok := unescaped([]byte(src))
		return strings.ReplaceAll(name, `""`, `"`), ok
	}
	return "", false
}

// short reads a name that servers do not cut: two that are one there would be two here.
func (p *parser) short() (string, bool) {
	name, ok := p.identifier()
	return name, ok && len(name) <= maxName
}

// unescaped gives what is between the quotes of U&"…" or U&'…' in which no character is
// escaped; others are not understood.
func unescaped(src []byte) (string, bool) {
	body := src[len(`U&"`) : len(src)-1]
	return string(body), !bytes.ContainsRune(body, '\\')
}

// lower folds as PostgreSQL does: ASCII only.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, s)
}

// command reads the statement at hand.
func (p *parser) command() (Command, bool) {
	switch {
	case p.word("set"):
		return p.set()
	case p.word("reset"):
		return p.reset()
	case p.word("begin"), p.word("start"):
		return Command{Kind: Begin}, true
	case p.word("commit", "prepared"), p.word("rollback", "prepared"):
		return Command{}, true
	case p.word("commit"), p.word("end"):
		return Command{Kind: Commit}, true
	case p.word("prepare", "transaction"):
		return Command{Kind: Prepare}, true
	case p.word("rollback"), p.word("abort"):
		if !p.word("work") {
			p.word("transaction")
		}
		if !p.word("to") {
			return Command{Kind: Rollback}, true
		}
		return p.savepoint(RollbackTo)
	case p.word("savepoint"):
		return p.savepoint(Savepoint)
	case p.word("release"):
		return p.savepoint(Release)
	case p.word("listen"):
		name, ok := p.short()
		return Command{Kind: Listen, Name: name}, ok && len(p.toks) == 0
	case len(p.toks) == 2 && p.is(p.toks[1], "*") && p.word("unlisten"):
		return Command{Kind: Unlisten}, true
	case p.word("unlisten"):
		name, ok := p.short()
		return Command{Kind: Unlisten, Name: name}, ok && len(p.toks) == 0
	}
	return Command{}, false
}

// savepoint reads a savepoint's name, with or without the word.
func (p *parser) savepoint(k Kind) (Command, bool) {
	if len(p.toks) > 1 {
		p.word("savepoint")
	}
	name, ok := p.short()
	return Command{Kind: k, Name: name}, ok && len(p.toks) == 0
}
