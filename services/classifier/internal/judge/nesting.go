package judge

import (
	"bytes"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// The C code that turns a parse tree into protobuf calls itself for each level
// and does not look at its stack: "SELECT 1+1+1…" with 24,000 operators ends a
// process that has 8 MB of it, and a thread may have only 2 MB. The server has
// the same problem and answers with "stack depth limit exceeded" at a similar
// depth (max_stack_depth).
const maxNesting = 4000

// shortText cannot nest deeper than maxNesting: a level takes two bytes at least.
const shortText = 2 * maxNesting

// NewestMajor is the release whose lexical rules accept the most.
const NewestMajor = 18

// nesting gives an upper bound for the depth of the text's parse tree, or zero
// for a text too short to matter. Chains such as a+b+c, NOT NOT a, or a JOIN b
// JOIN c make a level with each token at worst; commas and semicolons part list
// items, which lie side by side. Only set operations chain across commas.
func nesting(text string) (int, error) {
	if len(text) < shortText {
		return 0, nil
	}
	type level struct{ item, chain int }
	open := []level{{}}
	depth, deepest := 0, 0 // depth is the sum over open
	b := []byte(text)
	lexer := sqltoken.NewLexer(b, NewestMajor)
	for {
		t, err := lexer.Next()
		if err != nil {
			return 0, err
		}
		if t.Kind == sqltoken.EOF {
			return deepest, nil
		}
		if t.IsComment() {
			continue
		}
		top := &open[len(open)-1]
		word := b[t.Start:t.End]
		switch {
		case t.Kind == sqltoken.Self && (word[0] == '(' || word[0] == '['):
			top.item++
			depth++
			open = append(open, level{})
		case t.Kind == sqltoken.Self && (word[0] == ')' || word[0] == ']') && len(open) > 1:
			depth -= top.item + top.chain
			open = open[:len(open)-1]
		case t.Kind == sqltoken.Self && word[0] == ',':
			depth -= top.item
			top.item = 0
		case t.Kind == sqltoken.Self && word[0] == ';':
			depth -= top.item + top.chain
			*top = level{}
		case t.Kind == sqltoken.Word && isSetOperation(word):
			top.chain++
			depth++
		default:
			top.item++
			depth++
		}
		deepest = max(deepest, depth)
	}
}

func isSetOperation(word []byte) bool {
	return bytes.EqualFold(word, []byte("union")) ||
		bytes.EqualFold(word, []byte("intersect")) ||
		bytes.EqualFold(word, []byte("except"))
}
