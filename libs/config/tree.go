package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// node is one JSON value with the line it stands on, which encoding/json does
// not tell.
type node struct {
	kind    kind
	line    int
	text    string   // of a string or number
	truth   bool     // of a boolean
	members []member // of an object, in the file's order, with repeats
	items   []*node  // of an array
}

type member struct {
	key   string
	line  int
	value *node
}

// kind is what a JSON value is, in words for a sentence.
type kind string

const (
	kindObject kind = "an object"
	kindArray  kind = "a list"
	kindString kind = "text"
	kindNumber kind = "a number"
	kindBool   kind = "true or false"
	kindNull   kind = "null"
)

// syntaxError is text that is not JSON.
type syntaxError struct {
	line   int
	reason string
}

func (e *syntaxError) Error() string { return e.reason }

// parseTree reads one JSON value that fills the whole of data.
func parseTree(data []byte) (*node, *syntaxError) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, &syntaxError{1, "the file is empty: write a JSON object, at least with primary and users"}
	}
	if !utf8.Valid(data) {
		return nil, &syntaxError{1 + bytes.Count(data[:invalidAt(data)], []byte("\n")), "the text is not UTF-8: save the file as UTF-8"}
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, explainSyntax(data, err)
	}
	r := treeReader{dec: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1}
	r.dec.UseNumber()
	n, err := r.value()
	if err != nil { // what Unmarshal took, Token takes too
		return nil, &syntaxError{r.line, err.Error()}
	}
	return n, nil
}

func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}

// explainSyntax says where the text stops being JSON and, for the usual slips,
// what to do.
func explainSyntax(data []byte, err error) *syntaxError {
	var se *json.SyntaxError
	if !errors.As(err, &se) {
		return &syntaxError{1, err.Error()}
	}
	at := min(max(int(se.Offset)-1, 0), len(data)-1) // the byte that did not fit
	before := bytes.TrimSpace(data[:at])
	e := &syntaxError{line: 1 + bytes.Count(data[:at], []byte("\n"))}
	switch c := data[at]; {
	case int(se.Offset) >= len(data) && strings.Contains(se.Error(), "unexpected end"):
		e.reason = "the file ends too early: close every { and [ and every quoted text"
	case c == '/' || c == '#':
		e.reason = "comments are not allowed in JSON: remove the comment"
	case (c == '}' || c == ']') && bytes.HasSuffix(before, []byte(",")):
		e.reason = fmt.Sprintf("remove the comma before %c: the last entry has none after it", c)
	case c == '"' && !bytes.HasSuffix(before, []byte(",")):
		e.reason = "put a comma between this entry and the one before it"
	case c == '\'':
		e.reason = "put texts and keys in double quotes, not in single ones"
	default:
		e.reason = "this is not JSON: " + se.Error()
	}
	return e
}

// treeReader builds nodes from tokens and counts lines on the way.
type treeReader struct {
	dec     *json.Decoder
	data    []byte
	line    int
	counted int64 // up to this offset
}

func (r *treeReader) token() (json.Token, error) {
	t, err := r.dec.Token()
	end := r.dec.InputOffset() // of the token; no token spans lines
	r.line += bytes.Count(r.data[r.counted:end], []byte("\n"))
	r.counted = end
	return t, err
}

func (r *treeReader) value() (*node, error) {
	t, err := r.token()
	if err != nil {
		return nil, err
	}
	n := &node{line: r.line}
	switch t := t.(type) {
	case json.Delim:
		n.kind = kindArray
		if t == '{' {
			n.kind = kindObject
		}
		return n, r.fill(n)
	case string:
		n.kind, n.text = kindString, t
	case json.Number:
		n.kind, n.text = kindNumber, t.String()
	case bool:
		n.kind, n.truth = kindBool, t
	default:
		n.kind = kindNull
	}
	return n, nil
}

// fill reads what is inside an object or array, and its closing token.
func (r *treeReader) fill(n *node) error {
	for r.dec.More() {
		var m member
		if n.kind == kindObject {
			t, err := r.token()
			if err != nil {
				return err
			}
			m.key, _ = t.(string) // an object's keys are strings
			m.line = r.line
		}
		v, err := r.value()
		if err != nil {
			return err
		}
		if n.kind == kindObject {
			m.value = v
			n.members = append(n.members, m)
		} else {
			n.items = append(n.items, v)
		}
	}
	_, err := r.token()
	return err
}
