package sqltoken

import "bytes"

// ForEachTag calls visit for each pair of a comment in the sqlcommenter format, delimiters included:
// /*action='show',traceparent='00-ab-cd-01'*/. Keys and values are as written, so still URL-encoded.
// It returns false, and may have visited some pairs, if the comment is not in that format.
func ForEachTag(comment []byte, visit func(key, value []byte)) bool {
	body, ok := bytes.CutPrefix(comment, []byte("/*"))
	if !ok {
		return false
	}
	if body, ok = bytes.CutSuffix(body, []byte("*/")); !ok {
		return false
	}
	for body = bytes.TrimSpace(body); ; body = bytes.TrimLeft(body[1:], " ") {
		eq := bytes.IndexByte(body, '=')
		if eq <= 0 || eq+1 >= len(body) || body[eq+1] != '\'' {
			return false
		}
		key, rest := body[:eq], body[eq+2:]
		n := tagValueEnd(rest)
		if n < 0 {
			return false
		}
		visit(key, rest[:n])
		body = rest[n+1:]
		if len(body) == 0 {
			return true
		}
		if body[0] != ',' {
			return false
		}
	}
}

// tagValueEnd returns the position of the closing quote, a quote behind a backslash being part of the
// value; -1 without one.
func tagValueEnd(p []byte) int {
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '\'':
			return i
		}
	}
	return -1
}
