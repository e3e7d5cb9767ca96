package settings

import (
	"bytes"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// Follow reads a statement string of which some statements do what Parse knows, and
// others do not: those are of the kind Other. There is a command for each statement, or
// none at all if all of them are Others: then no statement begins or ends a transaction,
// or does something about a savepoint, unless it runs code that does. ok is false for a
// text that is too long or cannot be taken apart.
func Follow(text []byte) (cs []Command, ok bool) {
	if len(text) > MaxText {
		return nil, false
	}
	p := newParser(text)
	known := false
	for p.statement() {
		if !p.entire() {
			return nil, false
		}
		transaction := p.transaction()
		c, ok := p.command()
		if !ok && transaction {
			return nil, false // a name that is not read here, for one
		}
		if !ok {
			c = Command{Kind: Other}
		}
		known = known || ok
		cs = append(cs, c)
	}
	switch {
	case p.err != nil:
		return nil, false
	case !known:
		return []Command{}, true
	}
	return cs, true
}

// transaction reports whether the statement at hand is one about a transaction block or a
// savepoint.
func (p *parser) transaction() bool {
	for _, word := range [...]string{"begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release"} {
		if p.peek(word) {
			return true
		}
	}
	return false
}

// entire reports whether the statement at hand is all of one: CREATE FUNCTION has
// semicolons inside of BEGIN ATOMIC, and CREATE RULE inside of parentheses (PostgreSQL
// documentation, "SQL Commands").
func (p *parser) entire() bool {
	depth := 0
	for _, t := range p.toks {
		switch src := p.source(t); {
		case p.is(t, "("):
			depth++
		case p.is(t, ")"):
			depth--
		case t.Kind == sqltoken.Word && bytes.EqualFold(src, []byte("atomic")):
			return false
		}
	}
	return depth == 0
}

// Known reports whether it is known of each command what it does to settings.
func Known(cs []Command) bool {
	for i := range cs {
		if cs[i].Kind == Other {
			return false
		}
	}
	return len(cs) > 0
}
