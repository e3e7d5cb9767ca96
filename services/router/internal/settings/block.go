package settings

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// Modes are the characteristics of a transaction block (PostgreSQL documentation,
// "SQL Commands: SET TRANSACTION"). Each is Default where it has not been given. The
// value is plain: it can be copied and compared.
type Modes struct {
	Isolation  Isolation
	Access     Access
	Deferrable Deferrable
}

// Isolation is the isolation level of a transaction.
type Isolation uint8

// The levels. PostgreSQL treats READ UNCOMMITTED as READ COMMITTED, but tells them
// apart when asked.
const (
	DefaultIsolation Isolation = iota
	ReadUncommitted
	ReadCommitted
	RepeatableRead
	Serializable
)

var isolationNames = [...]string{"", "read uncommitted", "read committed", "repeatable read", "serializable"}

// String gives the level as PostgreSQL's parameters have it; empty for the default.
func (i Isolation) String() string { return isolationNames[i] }

// ParseIsolation reads a value of default_transaction_isolation; DefaultIsolation for
// anything else.
func ParseIsolation(s string) Isolation {
	for i, name := range isolationNames {
		if i > 0 && lower(s) == name {
			return Isolation(i)
		}
	}
	return DefaultIsolation
}

// Access says whether a transaction may write.
type Access uint8

// The access modes.
const (
	DefaultAccess Access = iota
	ReadOnly
	ReadWrite
)

// Deferrable says whether a serializable transaction that only reads may wait for a
// snapshot.
type Deferrable uint8

// The ways to begin.
const (
	DefaultDeferrable Deferrable = iota
	IsDeferrable
	NotDeferrable
)

// with gives the modes with those that others give instead.
func (m Modes) with(o Modes) Modes {
	if o.Isolation != DefaultIsolation {
		m.Isolation = o.Isolation
	}
	if o.Access != DefaultAccess {
		m.Access = o.Access
	}
	if o.Deferrable != DefaultDeferrable {
		m.Deferrable = o.Deferrable
	}
	return m
}

// AppendBegin appends the BEGIN of a block with these modes.
func (m Modes) AppendBegin(b []byte) []byte {
	b = append(b, "BEGIN"...)
	if m.Isolation != DefaultIsolation {
		b = append(append(b, " ISOLATION LEVEL "...), [...]string{"", "READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}[m.Isolation]...)
	}
	b = append(b, [...]string{"", " READ ONLY", " READ WRITE"}[m.Access]...)
	return append(b, [...]string{"", " DEFERRABLE", " NOT DEFERRABLE"}[m.Deferrable]...)
}

// BlockKind says what a Block does.
type BlockKind uint8

const (
	// BlockBegin begins a block.
	BlockBegin BlockKind = iota
	// BlockSet gives modes to the transaction at hand.
	BlockSet
	// BlockCommit and BlockRollback end it.
	BlockCommit
	BlockRollback
)

// Block is a statement string of a single statement about a transaction block as a
// whole.
type Block struct {
	Kind BlockKind
	// Tag is the command tag of its success.
	Tag string
	// Modes are what BlockBegin and BlockSet give.
	Modes Modes
	// Chain says that a block with the same modes follows the one that ends.
	Chain bool
}

// Under gives the modes of a block that had these before.
func (b *Block) Under(before Modes) Modes { return before.with(b.Modes) }

// maxBlock is the longest text that is looked at as a Block, in bytes. One
// with anything but ASCII in it is none, since other letters are not folded as here.
const maxBlock = 256

// ParseBlock reads a Block. ok is false for any other text, and for a Block in a form
// that is not understood completely. The text must be one that sqltoken reads as the
// server does.
// One with a hint in it is another text.
func ParseBlock(text []byte) (b Block, ok bool) {
	if len(text) > maxBlock || !beginsBlock(text) || bytes.Contains(text, hint) || bytes.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return Block{}, false
	}
	p := parser{text: text, lexer: sqltoken.NewLexer(text, sqltoken.FirstMajor)}
	if !p.statement() {
		return Block{}, false
	}
	if b, ok = p.block(); !ok || len(p.toks) > 0 {
		return Block{}, false
	}
	return b, !p.statement() && p.err == nil
}

// hint is in every comment that tells the router something.
var hint = []byte("pgpilot")

// beginsBlock reports whether a text may begin with one.
func beginsBlock(text []byte) bool {
	text = behindSpace(text)
	if len(text) < 3 {
		return false
	}
	if text[0] == '-' || text[0] == '/' {
		return len(text) <= maxBlock && beginsBlockBehind(text)
	}
	for _, word := range [...]string{"begin", "start", "set", "commit", "end", "rollback", "abort"} {
		if len(text) >= len(word) && text[0]|0x20 == word[0] && bytes.EqualFold(text[:len(word)], []byte(word)) {
			return true
		}
	}
	return false
}

// beginsBlockBehind reports whether a text may begin with one behind comments.
func beginsBlockBehind(text []byte) bool {
	l := sqltoken.NewLexer(text, sqltoken.FirstMajor)
	for {
		t, err := l.Next()
		if err != nil || t.Kind == sqltoken.EOF {
			return false
		}
		if rest := text[t.Start:]; !t.IsComment() && rest[0] != ';' {
			return rest[0] != '-' && rest[0] != '/' && beginsBlock(rest)
		}
	}
}

func (p *parser) block() (Block, bool) {
	switch {
	case p.word("begin"):
		p.ofTransaction()
		m, ok := p.modes()
		return Block{Kind: BlockBegin, Tag: "BEGIN", Modes: m}, ok
	case p.word("start", "transaction"):
		m, ok := p.modes()
		return Block{Kind: BlockBegin, Tag: "START TRANSACTION", Modes: m}, ok
	case p.word("set", "transaction"):
		m, ok := p.modes()
		return Block{Kind: BlockSet, Tag: "SET", Modes: m}, ok && m != Modes{}
	case p.word("commit"), p.word("end"):
		return Block{Kind: BlockCommit, Tag: "COMMIT", Chain: p.chain()}, true
	case p.word("rollback"), p.word("abort"):
		return Block{Kind: BlockRollback, Tag: "ROLLBACK", Chain: p.chain()}, true
	}
	return Block{}, false
}

// ofTransaction reads a word that means nothing.
func (p *parser) ofTransaction() {
	if !p.word("work") {
		p.word("transaction")
	}
}

// chain reads what may follow the word that ends a block.
func (p *parser) chain() bool {
	p.ofTransaction()
	return !p.word("and", "no", "chain") && p.word("and", "chain")
}

// modes reads all that is left of the statement as modes, with or without commas
// between.
func (p *parser) modes() (m Modes, ok bool) {
	for first := true; len(p.toks) > 0; first = false {
		if !first {
			p.symbol(",")
		}
		var o Modes
		switch {
		case p.word("isolation", "level", "read", "uncommitted"):
			o.Isolation = ReadUncommitted
		case p.word("isolation", "level", "read", "committed"):
			o.Isolation = ReadCommitted
		case p.word("isolation", "level", "repeatable", "read"):
			o.Isolation = RepeatableRead
		case p.word("isolation", "level", "serializable"):
			o.Isolation = Serializable
		case p.word("read", "only"):
			o.Access = ReadOnly
		case p.word("read", "write"):
			o.Access = ReadWrite
		case p.word("not", "deferrable"):
			o.Deferrable = NotDeferrable
		case p.word("deferrable"):
			o.Deferrable = IsDeferrable
		default:
			return Modes{}, false
		}
		m = m.with(o)
	}
	return m, true
}

// Value gives the value of a change to one parameter, without its quotes. ok is false
// where it is none that is written in one piece.
func (c *Change) Value() (value string, ok bool) {
	text := []byte(c.SQL)
	p := parser{text: text, lexer: sqltoken.NewLexer(text, sqltoken.FirstMajor)}
	if !p.statement() {
		return "", false
	}
	if _, ok := p.name(); !ok || !p.symbol("=") && !p.word("to") || len(p.toks) != 1 {
		return "", false
	}
	t := p.toks[0]
	src := string(p.source(t))
	switch t.Kind {
	case sqltoken.Word:
		return lower(src), true
	case sqltoken.Integer:
		return src, true
	case sqltoken.String:
		if len(src) < 2 || src[0] != '\'' || bytes.ContainsAny([]byte(src[1:len(src)-1]), `'\`) {
			return "", false
		}
		return src[1 : len(src)-1], true
	}
	return "", false
}

// units of a time, and how many milliseconds each has ("Setting Parameters: Parameter
// Names and Values").
var units = map[string]time.Duration{
	"": time.Millisecond, "ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
}

// ParseTime reads the value of a parameter that is a time counted in milliseconds. ok is
// false for what is not a whole number of a unit of at least that.
func ParseTime(s string) (d time.Duration, ok bool) {
	s = string(bytes.Trim([]byte(s), " \t"))
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	n, err := strconv.ParseInt(s[:i], 10, 32)
	if i > 1 && s[0] == '0' {
		return 0, false // octal, for the server
	}
	unit, known := units[string(bytes.TrimLeft([]byte(s[i:]), " \t"))]
	if err != nil || !known || n > int64(maxTime/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// maxTime is the longest time that such a parameter may be.
const maxTime = time.Duration(1<<31-1) * time.Millisecond

// Value gives the value that the session has set for a parameter. isSet is false if it has
// set none; ok, if its value is not understood.
func (l *List) Value(name string) (value string, isSet, ok bool) {
	i := l.find(name)
	if i < 0 {
		return "", false, true
	}
	value, ok = l.settings[i].Value()
	return value, true, ok
}
