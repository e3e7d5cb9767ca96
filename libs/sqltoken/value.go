package sqltoken

import (
	"bytes"
	"unicode/utf8"
)

// AppendString appends the value of a String token of the Lexer's text to dst: quotes and pieces
// joined, escapes resolved. Other tokens, and strings with a ByteEscape, whose bytes PostgreSQL has
// yet to accept, give ok = false.
func (l *Lexer) AppendString(dst []byte, t Token) (value []byte, ok bool) {
	if t.Kind != String || t.Flags&ByteEscape != 0 {
		return dst, false
	}
	body := l.text[t.Start:t.End]
	if t.Flags&DollarQuoted != 0 {
		tag := bytes.IndexByte(body[1:], '$') + 2
		return append(dst, body[tag:len(body)-tag]...), true
	}

	i := t.Start + 1
	if t.Flags&Escaped != 0 {
		i++
	}
	for {
		switch c := l.text[i]; {
		case c == '\\' && t.Flags&Escaped != 0:
			next, v, err := escape(l.text, i)
			if err != nil {
				return dst, false
			}
			if v.code == '\v' && l.text[i+1] == 'v' && !l.modern {
				v.code = 'v'
			}
			dst = utf8.AppendRune(dst, v.code)
			i = next
		case c != '\'':
			dst = append(dst, c)
			i++
		case i+1 == t.End:
			return dst, true
		case l.text[i+1] == '\'':
			dst = append(dst, '\'')
			i += 2
		default:
			next, joined := l.continuation(i + 1)
			if !joined {
				return dst, false
			}
			i = next
		}
	}
}
