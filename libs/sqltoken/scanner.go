package sqltoken

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// Options say how the server would read a text. A Scan does not change them.
type Options struct {
	// Context stands for the database and the settings; see NewContext.
	Context Context
	// ServerMajor is the server's release, such as 17; see NewLexer.
	ServerMajor int
}

// Result is what Scan knows of a text.
type Result struct {
	// Key is equal for texts that may share a verdict.
	Key Key
	// FullText is set if Key is that of the whole text, comments included, not of its template.
	FullText bool
	// NonASCII is set if a byte of the text is above 0x7F.
	NonASCII bool
	// NonASCIIName is set if a name has such a byte. A server whose encoding has one byte a
	// character folds those letters, too, by its locale ("Identifiers and Key Words"), so that
	// the name may be another one.
	NonASCIIName bool
	// First is the word that begins the first statement, opening parentheses before it left out.
	First Keyword
	// Second is the word right after First. It is not looked at where First has templates (SELECT,
	// INSERT, UPDATE, DELETE, MERGE, VALUES, TABLE, WITH).
	Second Keyword
	// Statements is the number of statements, empty ones not counted: 0 for an empty query. It is an
	// upper bound, as a semicolon counts wherever it stands: inside the parentheses of CREATE RULE
	// and inside BEGIN ATOMIC it parts no statements.
	Statements int
	// Hints are the hints in all comments, in order. They are valid until the Scanner's next Scan.
	Hints []Hint
}

// Scanner scans texts one after the other, reusing its memory. It is about 5 kB large and belongs to
// one goroutine.
type Scanner struct {
	enc   encoder
	hints []Hint
}

// NewScanner returns a Scanner that hashes under secret.
func NewScanner(secret Secret) *Scanner {
	return &Scanner{enc: encoder{hasher: newHasher(secret)}}
}

// Scan lexes text and returns its key. It keeps no reference to text and allocates nothing, but for
// the first hints. An error means that the text is no statement the server could read the way this
// package does: treat it as a write and do not cache.
//
// The caller must not Scan where standard_conforming_strings is off, and must not use the Result for
// a NonASCII text where client_encoding is not UTF8, as the server may then see other strings, nor for
// one with a NonASCIIName where server_encoding is not UTF8.
func (s *Scanner) Scan(text []byte, opts *Options) (Result, error) {
	var res Result
	if bytes.IndexByte(text, 0) >= 0 {
		return Result{}, ErrNUL
	}
	if res.NonASCII = hasHighBit(text); res.NonASCII && !utf8.Valid(text) {
		return Result{}, ErrEncoding
	}
	s.hints = s.hints[:0]
	s.enc.start(opts)

	st := stream{enc: &s.enc, text: text}
	lx := NewLexer(text, opts.ServerMajor)
	for {
		t, err := lx.Next()
		if err != nil {
			return Result{}, err
		}
		if t.Kind == EOF {
			break
		}
		if t.IsComment() {
			s.hints = appendHints(s.hints, text, t.Kind, t.Start, t.End)
			continue
		}
		if res.NonASCII && (t.Kind == Word || t.Kind == QuotedIdent) && hasHighBit(text[t.Start:t.End]) {
			res.NonASCIIName = true
		}
		st.add(t)
	}

	res.First, res.Second = st.first, st.second
	res.Statements = st.statements
	if st.open {
		res.Statements++
	}
	res.FullText = !st.template || res.Statements > 1
	if res.FullText {
		res.Key = s.enc.fullText(text)
	} else {
		res.Key = s.enc.template()
	}
	if len(s.hints) > 0 {
		res.Hints = s.hints
	}
	return res, nil
}

// stream follows the tokens of one text, comments left out.
type stream struct {
	enc  *encoder
	text []byte

	// template is set while the text may be keyed by its template.
	template bool
	// open is set between the first token of a statement and its semicolon.
	open       bool
	statements int

	// lead says how much of the beginning was seen, float how much of "float (" was just seen.
	lead  lead
	float floatState

	first, second Keyword
}

type lead uint8

const (
	leadFirst  lead = iota // nothing but semicolons and parentheses so far
	leadParen              // the same, the last parenthesis not closed
	leadSecond             // the first word was just seen
	leadDone
)

type floatState uint8

const (
	floatNone  floatState = iota
	floatWord             // float
	floatParen            // float (
)

func (st *stream) add(t Token) {
	if t.Kind == Self && st.text[t.Start] == ';' {
		if st.open {
			st.statements++
		}
		st.open = false
	} else {
		st.open = true
	}
	if st.lead != leadDone {
		st.begin(t)
	}
	if st.template {
		st.encode(t)
	}
}

// begin looks at a token up to the second word of the first statement.
func (st *stream) begin(t Token) {
	switch {
	case st.lead == leadSecond:
		if t.Kind == Word {
			st.second = LookupKeyword(st.text[t.Start:t.End])
		}
		st.lead = leadDone
	case t.Kind == Word:
		st.first = LookupKeyword(st.text[t.Start:t.End])
		st.template = st.first.hasTemplate(st.lead == leadParen)
		st.lead = leadSecond
		if st.template {
			st.lead = leadDone
		}
	case t.Kind == Self && st.text[t.Start] == '(':
		st.lead = leadParen
		st.enc.byte('(')
	case t.Kind == Self && st.text[t.Start] == ';' && st.lead == leadFirst:
	default:
		st.lead = leadDone
	}
}

// encode adds a token to the template, or gives the template up.
func (st *stream) encode(t Token) {
	text := st.text[t.Start:t.End]
	was := st.float
	st.float = floatNone
	if t.Kind == Word {
		if len(text) == len("float") && equalFold(text, "float") {
			st.float = floatWord
		} else if len(text) == len("uescape") && equalFold(text, "uescape") {
			st.template = false
			return
		}
		st.enc.word(text)
		return
	}
	switch t.Kind {
	case Self:
		if text[0] == '(' && was == floatWord {
			st.float = floatParen
		}
		st.enc.byte(text[0])
	case Integer:
		if was == floatParen {
			st.enc.tagged(tagFloatBits, text)
			return
		}
		st.enc.literal(t, text)
	case String, BitString, HexString, Float:
		if t.Flags&(Joined|ByteEscape) != 0 {
			st.template = false
			return
		}
		st.enc.literal(t, text)
	case UnicodeString, UnicodeIdent:
		st.template = false
	case QuotedIdent:
		st.enc.tagged(tagQuoted, text)
	case Param:
		st.enc.bytes(text)
		st.enc.byte(end)
	case NChar:
		st.enc.byte(tagNChar)
	case Other:
		st.enc.tagged(tagOther, text)
	default:
		st.enc.tagged(tagOperator, text)
	}
}

// hasHighBit reports whether text has a byte above 0x7F.
func hasHighBit(text []byte) bool {
	const high = 0x8080808080808080
	for ; len(text) >= 8; text = text[8:] {
		if binary.LittleEndian.Uint64(text)&high != 0 {
			return true
		}
	}
	var or byte
	for _, c := range text {
		or |= c
	}
	return or >= 0x80
}
