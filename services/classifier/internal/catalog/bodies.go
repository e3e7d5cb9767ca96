package catalog

import (
	"errors"
	"slices"
	"strings"
	"unicode"

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
	// reason why nothing can be said of the source, whatever its names stand for.
	reason string
	// primary says why it may not be in a read, though it leaves nothing to the session.
	primary string
	// effects that it has whatever its names stand for.
	effects verdict.Effect
	// writes says that the relations among its words may be written.
	writes bool
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
	// useOthers are functions that are not PostgreSQL's own.
	useOthers
	// useAttribute and useRow may be calls or columns.
	useAttribute
	useRow
	useOperator
	useType
	useRelation
	// useWord may be anything but an operator.
	useWord
	// useWritten is a relation that is written, useDefining any definition.
	useWritten
	useDefining
)

// bodies remembers what the sources of functions name, since most of them are the
// same whenever the catalog is read anew.
type bodies struct {
	parse Parse
	// major is the server's release.
	major int
	// folding says that the server may fold letters that are not ASCII.
	folding bool
	known   map[source]body
	// kept is what the present reading has used; it becomes known.
	kept map[source]body
	// missed is set if a body of the present reading could not be looked at.
	missed bool
}

type source struct {
	language, text string
	// parameters are the names of parameters, as in functionRow, joined.
	parameters string
	// volatile functions may write; others are refused that by PostgreSQL.
	volatile bool
}

// between parts names where they are joined: no name has a zero byte.
const between = "\x00"

func newBodies(p Parse) *bodies { return &bodies{parse: p} }

func (b *bodies) begin() { b.kept, b.missed = make(map[source]body), false }
func (b *bodies) end()   { b.known, b.kept = b.kept, nil }

// of gives what a function's source names.
func (b *bodies) of(s source) body {
	out, ok := b.known[s]
	switch {
	case ok:
	case b.folding && namesBeyondASCII(s.text):
		out = body{reason: "has a body with a name whose letters the server may fold"}
	case s.language == "sql":
		var err error
		if out, err = b.sql(s); err != nil {
			b.missed = true
			return out
		}
	case s.language == "plpgsql":
		out = plpgsql(s.text, s.volatile)
	default:
		out = body{reason: "is written in " + s.language}
	}
	b.kept[s] = out
	return out
}

// sql judges the text of an SQL function as if all its names were harmless, and
// notes them. The error is ErrNotNow.
func (b *bodies) sql(s source) (body, error) {
	if o, refused := judge.Refuse(s.text); refused {
		return body{reason: "has a body with " + o.Reason}, nil
	}
	text := judge.Bare(s.text)
	switch tree, err := b.parse(text); {
	case errors.Is(err, ErrNotNow):
		return body{reason: "has a body that was not parsed yet"}, ErrNotNow
	case err != nil:
		return body{reason: "has a body that cannot be parsed"}, nil //nolint:nilerr // it is said in the reason
	default:
		r := &recorder{major: b.major, parameters: strings.Split(s.parameters, between)}
		o := judge.Body(tree, r)
		if o.Kind != verdict.Read && !s.volatile {
			return body{reason: "has a body with " + o.Reason}, nil
		}
		return body{effects: o.Effects &^ verdict.Transaction, uses: r.uses}, nil
	}
}

// namesBeyondASCII reports whether a text has a name with a character that is not ASCII.
func namesBeyondASCII(text string) bool {
	lexer := sqltoken.NewLexer([]byte(text), newestMajor)
	for {
		t, err := lexer.Next()
		if err != nil || t.Kind == sqltoken.EOF {
			return false // what cannot be taken apart is refused
		}
		if isName(t.Kind) && strings.IndexFunc(text[t.Start:t.End], func(r rune) bool { return r > unicode.MaxASCII }) >= 0 {
			return true
		}
	}
}

// recorder is a Catalog that finds everything harmless and notes what it is asked.
type recorder struct {
	major      int
	parameters []string
	uses       []use
}

func (r *recorder) note(u use) judge.Standing {
	r.uses = append(r.uses, u)
	return judge.Standing{}
}

func (r *recorder) Function(schema, name string, arguments int) judge.Standing {
	return r.note(use{useFunction, schema, name, arguments})
}

func (r *recorder) Others(schema, name string, arguments int) judge.Standing {
	return r.note(use{useOthers, schema, name, arguments})
}

func (r *recorder) Block(string, string) judge.Standing {
	return judge.Standing{Effects: verdict.Unproven}
}

func (r *recorder) Parameter(name string) bool { return slices.Contains(r.parameters, name) }

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

func (r *recorder) Written(schema, name string) judge.Standing {
	return r.note(use{kind: useWritten, schema: schema, name: name})
}

func (r *recorder) Major() int { return r.major }

func (r *recorder) Unseen() judge.Standing { return judge.Standing{} }

func (r *recorder) Defining() judge.Standing { return r.note(use{kind: useDefining}) }
