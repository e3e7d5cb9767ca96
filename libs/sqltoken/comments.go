package sqltoken

// AppendWithoutComments appends text to dst with each comment replaced by as many spaces, so that
// every other byte keeps its place. It is for parsers that do not take comments for white space
// everywhere: pg_query fails on NOT /* c */ IN and on strings joined across a line comment.
//
// Comments between two string constants stay where they are. Without them the strings might be
// joined, and PostgreSQL's grammar knows no such pair.
func AppendWithoutComments(dst, text []byte, serverMajor int) ([]byte, error) {
	base := len(dst)
	dst = append(dst, text...)
	lx := NewLexer(text, serverMajor)
	lx.blank = dst[base:]
	var last Token
	for {
		t, err := lx.Next()
		if err != nil {
			return dst[:base], err
		}
		if t.IsComment() {
			continue
		}
		if !isString(last) || !isString(t) {
			lx.blankGap(last.End, t.Start)
		}
		if t.Kind == EOF {
			return dst, nil
		}
		last = t
	}
}

// blankGap blanks the comments of a stretch that holds only comments and white space. Newlines stay:
// they may join two pieces of a string.
func (l *Lexer) blankGap(start, end int) {
	for i := start; i < end; i++ {
		if c := l.text[i]; c != '\n' && c != '\r' {
			l.blank[i] = ' '
		}
	}
}

func isString(t Token) bool { return t.Kind >= String && t.Kind <= HexString }
