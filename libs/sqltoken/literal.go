package sqltoken

import "bytes"

// plainString reads a string in which only a doubled quote is special; i is behind the opening quote.
func (l *Lexer) plainString(kind Kind, flags Flags, start, i int) (Token, error) {
	text := l.text
	for {
		n := bytes.IndexByte(text[i:], '\'')
		if n < 0 {
			return Token{}, ErrUnterminatedString
		}
		i += n + 1
		if i < len(text) && text[i] == '\'' {
			i++
			continue
		}
		next, joined := l.continuation(i)
		if !joined {
			return l.emit(kind, flags, start, i), nil
		}
		flags |= Joined
		i = next
	}
}

// rawString reads B'...' and X'...', where a doubled quote does not stand for a quote.
func (l *Lexer) rawString(kind Kind, start, i int) (Token, error) {
	var flags Flags
	for {
		n := bytes.IndexByte(l.text[i:], '\'')
		if n < 0 {
			return Token{}, ErrUnterminatedString
		}
		i += n + 1
		next, joined := l.continuation(i)
		if !joined {
			return l.emit(kind, flags, start, i), nil
		}
		flags |= Joined
		i = next
	}
}

// escapeString reads E'...' ("Lexical Structure: String Constants with C-Style Escapes").
func (l *Lexer) escapeString(start, i int) (Token, error) {
	text := l.text
	flags := Escaped
	for i < len(text) {
		switch text[i] {
		case '\'':
			i++
			if i < len(text) && text[i] == '\'' {
				i++
				continue
			}
			next, joined := l.continuation(i)
			if !joined {
				return l.emit(String, flags, start, i), nil
			}
			flags |= Joined
			i = next
		case '\\':
			next, value, err := escape(text, i)
			if err != nil {
				return Token{}, err
			}
			if value.raw && (value.code == 0 || value.code >= 0x80) {
				flags |= ByteEscape
			}
			i = next
		default:
			i++
		}
	}
	return Token{}, ErrUnterminatedString
}

// escaped is what one escape sequence stands for: a byte given by number (raw), or a character.
type escaped struct {
	code rune
	raw  bool
}

// escape reads the escape sequence at text[i], a backslash, and returns the position behind it. A
// surrogate pair is one sequence.
func escape(text []byte, i int) (next int, value escaped, err error) {
	if i+1 >= len(text) {
		return 0, escaped{}, ErrUnterminatedString
	}
	c := text[i+1]
	switch {
	case c >= '0' && c <= '7':
		v, next := hexRun(text, i+1, 3, 8)
		return next, escaped{code: rune(byte(v)), raw: true}, nil
	case c == 'x':
		v, next := hexRun(text, i+2, 2, 16)
		if next == i+2 {
			return next, escaped{code: 'x'}, nil
		}
		return next, escaped{code: rune(v), raw: true}, nil
	case c == 'u' || c == 'U':
		return unicodeEscape(text, i)
	}
	// The characters PostgreSQL's scanner knows; any other stands for itself.
	code := rune(c)
	switch c {
	case 'b':
		code = '\b'
	case 'f':
		code = '\f'
	case 'n':
		code = '\n'
	case 'r':
		code = '\r'
	case 't':
		code = '\t'
	case 'v':
		code = '\v'
	}
	// A high-bit byte is the first of a character whose rest follows as plain text.
	return i + 2, escaped{code: code, raw: c >= 0x80}, nil
}

func unicodeEscape(text []byte, i int) (next int, value escaped, err error) {
	high, next, ok := unicodeUnit(text, i)
	if !ok || high >= 0xDC00 && high <= 0xDFFF {
		return 0, escaped{}, ErrUnicodeEscape
	}
	if high >= 0xD800 && high <= 0xDBFF {
		low, after, ok := unicodeUnit(text, next)
		if !ok || low < 0xDC00 || low > 0xDFFF {
			return 0, escaped{}, ErrUnicodeEscape
		}
		return after, escaped{code: rune((high-0xD800)<<10 + (low - 0xDC00) + 0x10000)}, nil
	}
	if high == 0 || high > 0x10FFFF {
		return 0, escaped{}, ErrUnicodeEscape
	}
	return next, escaped{code: rune(high)}, nil
}

// unicodeUnit reads one \uXXXX or \UXXXXXXXX.
func unicodeUnit(text []byte, i int) (v uint32, next int, ok bool) {
	if i+1 >= len(text) || text[i] != '\\' {
		return 0, 0, false
	}
	width := 4
	switch text[i+1] {
	case 'u':
	case 'U':
		width = 8
	default:
		return 0, 0, false
	}
	v, next = hexRun(text, i+2, width, 16)
	return v, next, next == i+2+width
}

// hexRun reads up to width digits of the base at i.
func hexRun(text []byte, i, width int, base byte) (v uint32, next int) {
	for end := i + width; i < end && i < len(text); i++ {
		d := digitValue(text[i])
		if d >= base {
			break
		}
		v = v*uint32(base) + uint32(d)
	}
	return v, i
}

// continuation looks behind a closing quote for white space that holds a newline and then another
// quote, which continues the string ("Lexical Structure: String Constants"). -- comments count as
// white space here, /* */ comments do not. It returns the position behind the second quote.
func (l *Lexer) continuation(i int) (next int, ok bool) {
	text := l.text
	start := i
	newline := false
	for i < len(text) {
		switch c := text[i]; {
		case c == '\n' || c == '\r':
			newline = true
			i++
		case c == ' ' || c == '\t' || c == '\f' || c == '\v' && l.modern:
			i++
		case c == '-' && i+1 < len(text) && text[i+1] == '-':
			i = lineEnd(text, i+2)
		case c == '\'':
			if newline && l.blank != nil {
				l.blankGap(start, i)
			}
			return i + 1, newline
		default:
			return 0, false
		}
	}
	return 0, false
}

// quotedIdent reads a delimited identifier; i is behind the opening quote.
func (l *Lexer) quotedIdent(kind Kind, start, i int) (Token, error) {
	text := l.text
	body := i
	for {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return Token{}, ErrUnterminatedIdentifier
		}
		i += n + 1
		if i < len(text) && text[i] == '"' {
			i++
			continue
		}
		if i-1 == body {
			return Token{}, ErrEmptyIdentifier
		}
		return l.emit(kind, 0, start, i), nil
	}
}

// dollar reads what begins with a dollar sign: a parameter, a dollar-quoted string, or nothing
// PostgreSQL knows.
func (l *Lexer) dollar(start int) (Token, error) {
	text := l.text
	i := start + 1
	if i < len(text) && isDigit(text[i]) {
		return l.param(start)
	}
	if i < len(text) && beginsWord(text[i]) {
		for i++; i < len(text) && text[i] != '$' && fold[text[i]] != 0; i++ {
		}
	}
	if i >= len(text) || text[i] != '$' {
		return l.emit(Other, 0, start, start+1), nil
	}
	i++
	n := bytes.Index(text[i:], text[start:i])
	if n < 0 {
		return Token{}, ErrUnterminatedDollar
	}
	return l.emit(String, DollarQuoted, start, i+n+i-start), nil
}

func (l *Lexer) param(start int) (Token, error) {
	text := l.text
	i := start + 1
	for i < len(text) && isDigit(text[i]) {
		i++
	}
	if i < len(text) && beginsWord(text[i]) || wholeKind(text[start+1:i]) != Integer {
		return Token{}, ErrParameter
	}
	return l.emit(Param, 0, start, i), nil
}
