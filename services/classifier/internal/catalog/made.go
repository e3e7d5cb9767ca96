package catalog

import (
	"regexp"
	"strings"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// made gives the effects of the SQL that a body makes itself, as far as they can be
// guessed: nothing of what it runs is proven anyway, but what the session finds in its
// connection afterwards is to be there. Temporary objects are looked for in the body and
// in the strings that begin with their CREATE, which a variable may take to an EXECUTE,
// and what is set in the strings with which the SQL of an EXECUTE begins. Others may be
// pieces of a statement, as ' SET ' is of an UPDATE, or nothing that is run: what they
// would bind are the sessions of all who write a table, where its trigger has the body.
func (r *reader) made() verdict.Effect {
	for i, w := range r.words {
		switch {
		case w.is("temp", "temporary") && r.at(i-1).is("create", "local", "global", "replace", "into"),
			isName(w.kind) && strings.HasPrefix(w.text, "pg_temp"),
			w.kind == sqltoken.String && beginsCreate(w.text) && leavesSomething(r.beginning(i)),
			w.is("execute") && leavesSomething(r.beginning(i+1)):
			return verdict.Session
		}
	}
	return 0
}

// beginsCreate reports whether a text may begin with CREATE; one with a comment before it
// is looked at where it is executed.
func beginsCreate(text string) bool {
	const create = "create"
	text = strings.TrimLeft(text, " \t\n\r\f\v")
	return len(text) > len(create) && strings.EqualFold(text[:len(create)], create)
}

// mostJoined is how many strings are read as one with the string before them. A body may have
// very many, each of them the beginning of all that follow.
const mostJoined = 16

// beginning gives the tokens of the string that the expression at a token begins with,
// that of a call of format included ("Executing Dynamic Commands"). A piece that is put
// behind the string is a name without letters.
func (r *reader) beginning(i int) []word {
	i = r.pastParentheses(i)
	if r.at(i).is("pg_catalog") && r.at(i+1).is(".") {
		i += 2
	}
	formatted := r.at(i).is("format") && r.at(i+1).is("(")
	if formatted {
		i = r.pastParentheses(i + 1)
	}
	if r.at(i).kind != sqltoken.String {
		return nil
	}
	text := r.at(i).text
	if formatted {
		text = literalSpecifier.ReplaceAllString(text, "''")
		text = nameSpecifier.ReplaceAllString(text, placed)
	}
	var joined strings.Builder
	joined.WriteString(text)
	for range mostJoined {
		if !r.at(i+1).is("||") || r.at(i+2).kind != sqltoken.String {
			break
		}
		joined.WriteString(r.at(i + 2).text)
		i += 2
	}
	text = joined.String()
	// A text that ends within a constant is read as far as it goes.
	made := reader{lexer: sqltoken.NewLexer([]byte(text), newestMajor), text: text}
	if whole := made.scan(); whole && r.at(i+1).is("||") {
		made.words = append(made.words, word{kind: sqltoken.Word})
	}
	return made.words
}

func (r *reader) pastParentheses(i int) int {
	for r.at(i).is("(") {
		i++
	}
	return i
}

// placed stands for a name that format puts into its string.
const placed = "x"

// The specifiers of format ("String Functions and Operators", "format").
var (
	literalSpecifier = regexp.MustCompile(`%([0-9]+\$)?-?([0-9]+|\*([0-9]+\$)?)?L`)
	nameSpecifier    = regexp.MustCompile(`%([0-9]+\$)?-?([0-9]+|\*([0-9]+\$)?)?[Is]`)
)

// leavesSomething reports whether a statement that begins with the tokens leaves
// something in its session.
func leavesSomething(words []word) bool {
	r := reader{words: words}
	second, third := r.at(1), r.at(2)
	switch first := r.at(0); {
	case first.is("set"):
		return r.sets(1)
	case first.is("reset", "listen"):
		return isName(second.kind)
	case first.is("load"):
		return second.kind == sqltoken.String
	case first.is("prepare"):
		return isName(second.kind) && third.is("as", "(")
	case first.is("create"):
		return r.createsTemporary()
	}
	return false
}

// sets reports whether what is behind SET lasts longer than the transaction ("SET").
func (r *reader) sets(i int) bool {
	if r.at(i).is("session") {
		if i++; r.at(i).is("authorization", "characteristics") {
			return true
		}
	}
	switch {
	case r.at(i).is("local", "constraints", "transaction"):
		return false
	case r.at(i).is("role", "names", "schema"), r.at(i).is("time") && r.at(i+1).is("zone"):
		return true
	}
	for isName(r.at(i).kind) && r.at(i+1).is(".") {
		i += 2
	}
	// What is put behind SET, by || or format, is a name, or all the rest.
	if w := r.at(i); i == len(r.words)-1 && w.kind == sqltoken.Word && (w.text == "" || w.text == placed) {
		return true
	}
	return isName(r.at(i).kind) && r.at(i+1).is("=", "to")
}

// createsTemporary reports whether a CREATE makes a temporary object, by its keyword or
// by the name of its schema.
func (r *reader) createsTemporary() bool {
	i := 1
	if r.at(i).is("or") && r.at(i+1).is("replace") {
		i += 2
	}
	if r.at(i).is("local", "global") {
		i++
	}
	if r.at(i).is("temp", "temporary") {
		return true
	}
	for i, w := range r.words {
		if isName(w.kind) && strings.HasPrefix(w.text, "pg_temp") && r.at(i+1).is(".") {
			return true
		}
	}
	return false
}
