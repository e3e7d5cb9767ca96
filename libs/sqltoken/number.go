package sqltoken

import "math"

// number reads a number that begins with a digit, or with a point before a digit ("Lexical
// Structure: Numeric Constants"). PostgreSQL 15 and later refuse a number that runs into a word.
func (l *Lexer) number(start int) (Token, error) {
	text := l.text
	if text[start] == '0' && l.modern && start+1 < len(text) {
		if base := prefixBase(text[start+1]); base != 0 {
			return l.prefixedInteger(start, base)
		}
	}

	i := l.digits(start)
	whole := true
	if i < len(text) && text[i] == '.' && !(i+1 < len(text) && text[i+1] == '.') {
		whole = false
		i++
		if i < len(text) && isDigit(text[i]) {
			i = l.digits(i)
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		j := i + 1
		if j < len(text) && (text[j] == '+' || text[j] == '-') {
			j++
		}
		if j >= len(text) || !isDigit(text[j]) {
			return Token{}, ErrNumber
		}
		whole = false
		i = l.digits(j)
	}
	if i < len(text) && (beginsWord(text[i]) || text[i] == '$' && endsInWord(text[start:i])) {
		return Token{}, ErrNumber
	}
	if !whole {
		return l.emit(Float, 0, start, i), nil
	}
	kind := Integer
	if i-start > len("999999999") {
		kind = wholeKind(text[start:i])
	}
	return l.emit(kind, Whole, start, i), nil
}

// endsInWord reports whether the last digits of a number, with a letter or underscore before them,
// would also make a word, as in 1e5 or 1_0. A dollar sign then makes it longer than the number, and
// newer releases take it all for junk.
func endsInWord(number []byte) bool {
	for i := len(number) - 1; i >= 0 && fold[number[i]] != 0; i-- {
		if !isDigit(number[i]) {
			return true
		}
	}
	return false
}

// prefixedInteger reads 0x, 0o and 0b forms.
func (l *Lexer) prefixedInteger(start int, base byte) (Token, error) {
	text := l.text
	i := start + 2
	for i < len(text) {
		j := i
		if text[j] == '_' {
			j++
		}
		if j >= len(text) || digitValue(text[j]) >= base {
			break
		}
		i = j + 1
	}
	if i == start+2 || i < len(text) && fold[text[i]] != 0 {
		return Token{}, ErrNumber
	}
	return l.emit(wholeKind(text[start:i]), Whole, start, i), nil
}

// digits returns the end of the decimal digits at i, single underscores between them included where
// the server knows those.
func (l *Lexer) digits(i int) int {
	text := l.text
	for i < len(text) {
		if isDigit(text[i]) {
			i++
		} else if l.modern && text[i] == '_' && i+1 < len(text) && isDigit(text[i+1]) {
			i += 2
		} else {
			break
		}
	}
	return i
}

func prefixBase(c byte) byte {
	switch c | 0x20 {
	case 'x':
		return 16
	case 'o':
		return 8
	case 'b':
		return 2
	}
	return 0
}

// digitValue returns the value of a digit of any base, 255 for what is none.
func digitValue(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

func wholeKind(digits []byte) Kind {
	if wholeValue(digits) <= math.MaxInt32 {
		return Integer
	}
	return Float
}

// wholeValue returns the value of a whole number as written, at most beyondInt64.
func wholeValue(digits []byte) uint64 {
	base := uint64(10)
	if len(digits) > 2 && digits[0] == '0' {
		if b := prefixBase(digits[1]); b != 0 {
			base = uint64(b)
			digits = digits[2:]
		}
	}
	var v uint64
	for _, c := range digits {
		if c == '_' {
			continue
		}
		if v > 1<<63/base {
			return beyondInt64
		}
		v = v*base + uint64(digitValue(c))
	}
	return min(v, beyondInt64)
}

// beyondInt64 stands for every whole number that fits bigint with neither sign.
const beyondInt64 = 1<<63 + 1
