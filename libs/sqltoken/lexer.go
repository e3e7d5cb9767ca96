package sqltoken

// FirstMajor is the oldest PostgreSQL release whose scanner this package follows. FirstMajorNumbers
// is the first with hexadecimal, octal and binary integers, underscores in numbers, and vertical tab
// as white space.
const (
	FirstMajor        = 15
	FirstMajorNumbers = 16
)

// Lexer yields the tokens of a text, comments included, white space left out. It holds the text
// without copying it: the text must not change while the Lexer is used.
type Lexer struct {
	text []byte
	pos  int
	// modern is set for servers of FirstMajorNumbers and later.
	modern bool
	// signs is the end of a run of + and -, each an operator of its own, that has been looked at.
	signs int
	// blank, if not nil, is a copy of text in which comments inside joined strings are blanked.
	blank []byte
}

// NewLexer returns a Lexer over text as a server of release serverMajor would read it, with
// standard_conforming_strings on. A release of 0 (unknown) is taken for the oldest: what only newer
// ones accept is then an error.
func NewLexer(text []byte, serverMajor int) Lexer {
	return Lexer{text: text, modern: serverMajor >= FirstMajorNumbers}
}

// Next returns the next token; at the end its Kind is EOF. After an error the Lexer is spent.
//
// The rules are those of the chapter "SQL Syntax: Lexical Structure".
func (l *Lexer) Next() (Token, error) {
	text := l.text
	i := l.pos
	for i < len(text) {
		c := classes[text[i]]
		if c == classSpace {
			i++
			continue
		}
		switch c {
		case classVTab:
			if l.modern {
				i++
				continue
			}
			return l.emit(Other, 0, i, i+1), nil
		case classWord:
			return l.word(i), nil
		case classPrefix:
			if i+1 < len(text) && (text[i+1] == '\'' || text[i+1] == '&') {
				return l.prefixed(i)
			}
			return l.word(i), nil
		case classDigit:
			return l.number(i)
		case classQuote:
			return l.plainString(String, 0, i, i+1)
		case classDoubleQuote:
			return l.quotedIdent(QuotedIdent, i, i+1)
		case classDollar:
			return l.dollar(i)
		case classOperator:
			if i+1 < len(text) {
				if text[i] == '-' && text[i+1] == '-' {
					return l.lineComment(i), nil
				}
				if text[i] == '/' && text[i+1] == '*' {
					return l.blockComment(i)
				}
			}
			return l.operator(i)
		case classDot:
			if i+1 < len(text) {
				if isDigit(text[i+1]) {
					return l.number(i)
				}
				if text[i+1] == '.' {
					return l.emit(DotDot, 0, i, i+2), nil
				}
			}
			return l.emit(Self, 0, i, i+1), nil
		case classColon:
			if i+1 < len(text) {
				if text[i+1] == ':' {
					return l.emit(Typecast, 0, i, i+2), nil
				}
				if text[i+1] == '=' {
					return l.emit(ColonEquals, 0, i, i+2), nil
				}
			}
			return l.emit(Self, 0, i, i+1), nil
		case classSelf:
			return l.emit(Self, 0, i, i+1), nil
		default:
			return l.emit(Other, 0, i, i+1), nil
		}
	}
	l.pos = i
	return Token{Kind: EOF, Start: i, End: i}, nil
}

// emit makes a token and moves behind it.
func (l *Lexer) emit(kind Kind, flags Flags, start, end int) Token {
	l.pos = end
	return Token{Kind: kind, Flags: flags, Start: start, End: end}
}

func (l *Lexer) word(start int) Token {
	text := l.text
	i := start + 1
	for i < len(text) && fold[text[i]] != 0 {
		i++
	}
	return l.emit(Word, 0, start, i)
}

// prefixed reads what begins with a letter and then a quote or an ampersand.
func (l *Lexer) prefixed(start int) (Token, error) {
	letter := l.text[start] | 0x20
	if l.text[start+1] == '\'' {
		switch letter {
		case 'b':
			return l.rawString(BitString, start, start+2)
		case 'x':
			return l.rawString(HexString, start, start+2)
		case 'e':
			return l.escapeString(start, start+2)
		case 'n':
			return l.emit(NChar, 0, start, start+1), nil
		}
	} else if letter == 'u' && start+2 < len(l.text) {
		switch l.text[start+2] {
		case '\'':
			return l.plainString(UnicodeString, 0, start, start+3)
		case '"':
			return l.quotedIdent(UnicodeIdent, start, start+3)
		}
	}
	return l.word(start), nil
}

func (l *Lexer) lineComment(start int) Token {
	return l.emit(LineComment, 0, start, lineEnd(l.text, start+2))
}

// lineEnd returns the position of the first newline character from i, or the end of the text.
func lineEnd(text []byte, i int) int {
	for i < len(text) && text[i] != '\n' && text[i] != '\r' {
		i++
	}
	return i
}

func (l *Lexer) blockComment(start int) (Token, error) {
	text := l.text
	depth := 1
	for i := start + 2; i+1 < len(text); {
		switch {
		case text[i] == '/' && text[i+1] == '*':
			depth++
			i += 2
		case text[i] == '*' && text[i+1] == '/':
			depth--
			i += 2
			if depth == 0 {
				return l.emit(BlockComment, 0, start, i), nil
			}
		default:
			i++
		}
	}
	return Token{}, ErrUnterminatedComment
}
