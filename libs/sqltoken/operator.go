package sqltoken

// maxOperator is PostgreSQL's NAMEDATALEN: operators are refused from that length on, not truncated.
const maxOperator = 64

// operator reads an operator by the rules of "Lexical Structure: Operators": the longest run of
// operator characters, ending before a comment start, and not ending in + or - unless it has one of
// ~ ! @ # ^ & | ` ? %.
func (l *Lexer) operator(start int) (Token, error) {
	text := l.text
	first := text[start]
	end := start + 1
	if start < l.signs || end >= len(text) || !isOperatorChar(text[end]) {
		return l.emit(singleOperator(first), 0, start, end), nil
	}

	special := isSpecial(first)
	for end < len(text) {
		c := text[end]
		if !isOperatorChar(c) {
			break
		}
		if end+1 < len(text) && (c == '-' && text[end+1] == '-' || c == '/' && text[end+1] == '*') {
			break
		}
		special = special || isSpecial(c)
		end++
	}
	if !special {
		// To look at the same signs again for each of them would take the square of their number.
		run := end
		for end-start > 1 && (text[end-1] == '+' || text[end-1] == '-') {
			end--
		}
		l.signs = run
	}

	switch end - start {
	case 1:
		return l.emit(singleOperator(first), 0, start, end), nil
	case 2:
		return l.emit(doubleOperator(first, text[start+1]), 0, start, end), nil
	}
	if end-start >= maxOperator {
		return Token{}, ErrOperatorTooLong
	}
	return l.emit(Operator, 0, start, end), nil
}

func isOperatorChar(c byte) bool { return classes[c] == classOperator }

// isSpecial reports whether c lets an operator end in + or -.
func isSpecial(c byte) bool {
	switch c {
	case '~', '!', '@', '#', '^', '&', '|', '`', '?', '%':
		return true
	}
	return false
}

func singleOperator(c byte) Kind {
	switch c {
	case '+', '-', '*', '/', '%', '^', '<', '>', '=':
		return Self
	}
	return Operator
}

func doubleOperator(a, b byte) Kind {
	switch {
	case a == '=' && b == '>':
		return EqualsGreater
	case a == '<' && b == '=':
		return LessEquals
	case a == '>' && b == '=':
		return GreaterEquals
	case a == '<' && b == '>', a == '!' && b == '=':
		return NotEquals
	}
	return Operator
}
