package settings

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// The router has parameters of its own, whose names begin with ownPrefix. Servers
// would take them for an application's and never say that a value is wrong: they do
// not get to see them. A List keeps such a value as it is written, not as SQL, and
// does not give it to connections.
const (
	ownWord   = "pgpilot"
	ownPrefix = ownWord + "."
)

// IsOwn reports whether a parameter is the router's.
func IsOwn(name string) bool { return strings.HasPrefix(name, ownPrefix) }

// Verb is what a statement does with one of the router's parameters.
type Verb uint8

// The verbs.
const (
	SetOwn Verb = iota
	ResetOwn
	ShowOwn
)

// Tag gives the statement's command tag.
func (v Verb) Tag() string { return [...]string{"SET", "RESET", "SHOW"}[v] }

// Own is a statement about one of the router's parameters: SET, RESET or SHOW.
type Own struct {
	Verb Verb
	// Local says that the value holds for the transaction only.
	Local bool
	// Name is the parameter's, in lower case.
	Name string
	// Value is what it is set to, without quotes. Default says that it is DEFAULT
	// instead, Several that there is more than one value.
	Value            string
	Default, Several bool
}

// Resets reports whether the parameter gets back the value that the session began with.
func (o *Own) Resets() bool { return o.Verb == ResetOwn || o.Default }

// ParseOwn reads a statement string all of whose statements are about the router's
// parameters.
func ParseOwn(text []byte) (os []Own, ok bool) {
	if !beginsOwn(text) || !mentionsOwn(text) {
		return nil, false
	}
	p := newParser(text)
	for p.statement() {
		o, ok := p.own()
		if !ok {
			return nil, false
		}
		os = append(os, o)
	}
	return os, p.err == nil && len(os) > 0
}

// mentionsOwn reports whether the text may have the name of a parameter of the router's
// in it, in whatever case. It costs little: it is asked of every statement that is not a
// read, of whatever length.
func mentionsOwn(text []byte) bool {
	for at := 0; ; at++ {
		i := bytes.IndexByte(text[at:], '.')
		if i < 0 {
			return false
		}
		at += i
		to := at
		for to > 0 && (text[to-1] == '"' || text[to-1] <= ' ') {
			to--
		}
		if from := to - len(ownWord); from >= 0 && bytes.EqualFold(text[from:to], []byte(ownWord)) || to > 0 && text[to-1] == '/' {
			return true
		}
	}
}

// beginsOwn reports whether a text may begin with SET, RESET or SHOW, or a comment.
func beginsOwn(text []byte) bool {
	text = behindSpace(text)
	if len(text) < len("set x") {
		return false
	}
	switch text[0] {
	case '-', '/':
		return true
	case 's', 'S':
		return text[1]|0x20 == 'e' && text[2]|0x20 == 't' || text[1]|0x20 == 'h'
	}
	return text[0]|0x20 == 'r'
}

// own reads the statement at hand.
func (p *parser) own() (o Own, ok bool) {
	switch {
	case p.word("show"):
		o.Verb = ShowOwn
	case p.word("reset"):
		o.Verb = ResetOwn
	case !p.word("set"):
		return o, false
	case p.followed("session"):
	case p.followed("local"):
		o.Local = true
	}
	o.Name, ok = p.name()
	switch {
	case !ok || !IsOwn(o.Name):
		return o, false
	case o.Verb != SetOwn:
		return o, len(p.toks) == 0
	case !p.symbol("=") && !p.word("to"):
		return o, false
	case len(p.toks) == 1 && p.peek("default"):
		o.Default = true
		return o, true
	}
	if o.Value, ok = p.value(); !ok {
		return o, false
	}
	for p.symbol(",") {
		if _, ok := p.value(); !ok {
			return o, false
		}
		o.Several = true
	}
	return o, len(p.toks) == 0
}

// value reads a constant or a word.
func (p *parser) value() (string, bool) {
	sign := ""
	switch {
	case p.symbol("-"):
		sign = "-"
	case p.symbol("+"):
	}
	if len(p.toks) == 0 {
		return "", false
	}
	t := p.toks[0]
	switch t.Kind {
	case sqltoken.Integer, sqltoken.Float:
		p.toks = p.toks[1:]
		return sign + string(p.source(t)), true
	case sqltoken.String:
		p.toks = p.toks[1:]
		v, ok := p.lexer.AppendString(nil, t)
		return string(v), ok && sign == ""
	case sqltoken.UnicodeString:
		p.toks = p.toks[1:]
		v, ok := unescaped(p.source(t))
		return v, ok && sign == "" && !strings.Contains(v, "'")
	}
	v, ok := p.identifier()
	return v, ok && sign == ""
}

// BeginsWithEnd reports whether the first of a text's statements is one that a transaction
// executes which has failed: it ends it, or takes it back to a savepoint.
func BeginsWithEnd(text []byte) bool {
	if len(text) > MaxText {
		return false
	}
	p := newParser(text)
	if !p.statement() {
		return false
	}
	c, ok := p.command()
	return ok && (c.Kind == Commit || c.Kind == Rollback || c.Kind == RollbackTo || c.Kind == Prepare)
}

// InsideString reports whether a character of a text, counted from 0, is inside of a string
// constant, its first one not being so.
func InsideString(text []byte, character int) bool {
	at := 0
	for ; character > 0 && at < len(text); character-- {
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	lexer := sqltoken.NewLexer(text, sqltoken.FirstMajor)
	for {
		t, err := lexer.Next()
		switch {
		case err != nil || t.Kind == sqltoken.EOF || t.Start >= at:
			return false
		case at < t.End:
			return t.Kind == sqltoken.String || t.Kind == sqltoken.UnicodeString
		}
	}
}

// Among is a statement about one of the router's parameters among others.
type Among struct {
	Own
	// Behind is how many of the others are in front of it.
	Behind int
}

// Part takes the statements about the router's parameters out of a string that has
// others, too. rest is the text with a blank in the place of each of their characters, so
// that positions in it stay what they are; nil where it is not certain what is a statement
// of its own. There are none in other texts, and in those that cannot be read.
func Part(text []byte) (rest []byte, own []Among) {
	if !mentionsOwn(text) {
		return nil, nil
	}
	p := newParser(text)
	others, from := 0, 0
	certain := true
	for p.statement() {
		certain = certain && p.entire()
		span := text[p.toks[0].Start:p.toks[len(p.toks)-1].End]
		at := p.toks[0].Start
		o, ok := p.own()
		if !ok {
			others++
			continue
		}
		own = append(own, Among{o, others})
		rest = append(rest, text[from:at]...)
		for range utf8.RuneCount(span) {
			rest = append(rest, ' ')
		}
		from = at + len(span)
	}
	switch {
	case p.err != nil, others == 0, own == nil:
		return nil, nil
	case !certain:
		return nil, own
	}
	return append(rest, text[from:]...), own
}
