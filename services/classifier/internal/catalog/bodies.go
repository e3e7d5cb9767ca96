package catalog

import (
	"errors"
	"strings"

	pgquery "github.com/pganalyze/pg_query_go/v6"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// Parse makes a tree of the text of an SQL function. Its error is ErrNotNow if it
// can be asked again.
type Parse func(text string) (*pgquery.ParseResult, error)

// ErrNotNow is the error of a Parse that could not look at the text.
var ErrNotNow = errors.New("the parser is not available")

// body is what the source of a function names.
type body struct {
	// reason why the source cannot be in a read whatever its names stand for.
	reason string
	uses   []use
}

// use is a name in a body.
type use struct {
	kind         useKind
	schema, name string
	arguments    int
}

type useKind byte

const (
	useFunction useKind = iota
	// useAttribute and useRow may be calls or columns.
	useAttribute
	useRow
	useOperator
	useType
	useRelation
	// useWord may be anything but an operator.
	useWord
)

// bodies remembers what the sources of functions name, since most of them are the
// same whenever the catalog is read anew.
type bodies struct {
	parse Parse
	known map[source]body
	// kept is what the present reading has used; it becomes known.
	kept map[source]body
	// missed is set if a body of the present reading could not be looked at.
	missed bool
}

type source struct{ language, text string }

func newBodies(p Parse) *bodies { return &bodies{parse: p} }

func (b *bodies) begin() { b.kept, b.missed = make(map[source]body), false }
func (b *bodies) end()   { b.known, b.kept = b.kept, nil }

// of gives what a function's source names.
func (b *bodies) of(language, text string) body {
	s := source{language, text}
	out, ok := b.known[s]
	if !ok {
		switch language {
		case "sql":
			var err error
			if out, err = b.sql(text); err != nil {
				b.missed = true
				return out
			}
		case "plpgsql":
			out = plpgsql(text)
		default:
			out = body{reason: "is written in " + language}
		}
	}
	b.kept[s] = out
	return out
}

// sql judges the text of an SQL function as if all its names were harmless, and
// notes them. The error is ErrNotNow.
func (b *bodies) sql(text string) (body, error) {
	if o, refused := judge.Refuse(text); refused {
		return body{reason: "has a body with " + o.Reason}, nil
	}
	switch tree, err := b.parse(text); {
	case errors.Is(err, ErrNotNow):
		return body{reason: "has a body that was not parsed yet"}, ErrNotNow
	case err != nil:
		return body{reason: "has a body that cannot be parsed"}, nil
	default:
		r := &recorder{}
		if o := judge.Tree(tree, 0, r); o.Kind != verdict.Read {
			return body{reason: "has a body with " + o.Reason}, nil
		}
		return body{uses: r.uses}, nil
	}
}

// recorder is a Catalog that finds everything harmless and notes what it is asked.
type recorder struct{ uses []use }

func (r *recorder) note(u use) judge.Standing {
	r.uses = append(r.uses, u)
	return judge.Standing{}
}

func (r *recorder) Function(schema, name string, arguments int) judge.Standing {
	return r.note(use{useFunction, schema, name, arguments})
}

func (r *recorder) Attribute(name string, row bool) judge.Standing {
	if row {
		return r.note(use{kind: useRow, name: name})
	}
	return r.note(use{kind: useAttribute, name: name})
}

func (r *recorder) Operator(schema, name string) judge.Standing {
	return r.note(use{kind: useOperator, schema: schema, name: name})
}

func (r *recorder) Type(schema, name string) judge.Standing {
	return r.note(use{kind: useType, schema: schema, name: name})
}

func (r *recorder) Relation(schema, name string) judge.Standing {
	return r.note(use{kind: useRelation, schema: schema, name: name})
}

func (r *recorder) Unseen() judge.Standing { return judge.Standing{} }

// plpgsql reads the words of a PL/pgSQL body, whose lexical rules are those of
// SQL. PostgreSQL sees to it that a function which is not volatile runs nothing but
// queries; which functions these call is in their words, except for EXECUTE, whose
// text is made at run time.
func plpgsql(text string) body {
	var out body
	seen := make(map[use]bool)
	note := func(u use) {
		if !seen[u] {
			seen[u] = true
			out.uses = append(out.uses, u)
		}
	}
	for _, name := range implied {
		note(use{kind: useOperator, name: name})
	}
	b := []byte(text)
	lexer := sqltoken.NewLexer(b, newestMajor)
	for {
		t, err := lexer.Next()
		if err != nil {
			return body{reason: "has a body that cannot be read"}
		}
		word := string(b[t.Start:t.End])
		switch {
		case t.Kind == sqltoken.EOF:
			return out
		case t.IsComment():
		case t.Kind == sqltoken.Word:
			word = fold(word)
			switch {
			case word == "execute":
				return body{reason: "runs SQL that it makes itself (EXECUTE)"}
			case strings.HasPrefix(word, "pg_temp"):
				return body{reason: "uses temporary objects"}
			}
			note(use{kind: useWord, name: word})
		case t.Kind == sqltoken.QuotedIdent:
			name, ok := unquote(word)
			if !ok || strings.HasPrefix(name, "pg_temp") {
				return body{reason: "has a body that cannot be read"}
			}
			note(use{kind: useWord, name: name})
		case t.Kind == sqltoken.UnicodeIdent:
			return body{reason: "has a body that cannot be read"}
		case operator[t.Kind]:
			note(use{kind: useOperator, name: word})
		}
	}
}

// operator are the kinds of tokens that may be one.
var operator = map[sqltoken.Kind]bool{sqltoken.Operator: true, sqltoken.Self: true}

// implied are the operators that syntax such as LIKE, IN and BETWEEN stands for,
// and those whose tokens have kinds of their own.
var implied = []string{"=", "<>", "<", "<=", ">", ">=", "~~", "!~~", "~~*", "!~~*", "~"}

// newestMajor is the release whose lexical rules accept the most.
const newestMajor = 18

// fold lower-cases as PostgreSQL does in a multi-byte encoding.
func fold(word string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, word)
}

// unquote gives the name in a quoted identifier without escapes.
func unquote(word string) (string, bool) {
	if len(word) < 2 || word[0] != '"' || word[len(word)-1] != '"' {
		return "", false // U&"…"
	}
	return strings.ReplaceAll(word[1:len(word)-1], `""`, `"`), true
}
