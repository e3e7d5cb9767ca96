package workload

import (
	"fmt"
	"strconv"
	"strings"
)

// maxArgs is how many parameters a statement has at most.
const maxArgs = 4

// Statement is a template with integer parameters $1 to $4.
type Statement struct {
	// name is that of the prepared statement.
	name string
	text string
	args int
	// writes is everything but a SELECT; begins is BEGIN.
	writes, begins bool
	// parts are the text around the parameters, and order which parameter stands
	// between them: what the simple protocol sends.
	parts []string
	order []int
}

// newStatement cuts text at its parameters. The text is one of this package's, so what
// does not fit panics.
func newStatement(name, text string) *Statement {
	s := &Statement{name: name, text: text, writes: !strings.HasPrefix(text, "SELECT"), begins: text == "BEGIN"}
	rest := text
	for {
		at := strings.IndexByte(rest, '$')
		if at < 0 {
			break
		}
		n := int(rest[at+1] - '0')
		if n < 1 || n > maxArgs {
			panic(fmt.Sprintf("statement %q has a parameter that is not $1 to $%d", text, maxArgs))
		}
		s.parts = append(s.parts, rest[:at])
		s.order = append(s.order, n-1)
		s.args = max(s.args, n)
		rest = rest[at+2:]
	}
	s.parts = append(s.parts, rest)
	return s
}

// appendText appends the text with the values in the places of the parameters.
func (s *Statement) appendText(dst []byte, args []int64) []byte {
	for i, n := range s.order {
		dst = append(dst, s.parts[i]...)
		dst = strconv.AppendInt(dst, args[n], 10)
	}
	return append(dst, s.parts[len(s.parts)-1]...)
}
