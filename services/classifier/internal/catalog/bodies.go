package catalog

import (
	"errors"

	pgquery "github.com/pganalyze/pg_query_go/v6"

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
	known map[source]body
	// kept is what the present reading has used; it becomes known.
	kept map[source]body
	// missed is set if a body of the present reading could not be looked at.
	missed bool
}

type source struct {
	language, text string
	// volatile functions may write; others are refused that by PostgreSQL.
	volatile bool
}

func newBodies(p Parse) *bodies { return &bodies{parse: p} }

func (b *bodies) begin() { b.kept, b.missed = make(map[source]body), false }
func (b *bodies) end()   { b.known, b.kept = b.kept, nil }

// of gives what a function's source names.
func (b *bodies) of(language, text string, volatile bool) body {
	s := source{language, text, volatile}
	out, ok := b.known[s]
	if !ok {
		switch language {
		case "sql":
			var err error
			if out, err = b.sql(text, volatile); err != nil {
				b.missed = true
				return out
			}
		case "plpgsql":
			out = plpgsql(text, volatile)
		default:
			out = body{reason: "is written in " + language}
		}
	}
	b.kept[s] = out
	return out
}

// sql judges the text of an SQL function as if all its names were harmless, and
// notes them. The error is ErrNotNow.
func (b *bodies) sql(text string, volatile bool) (body, error) {
	if o, refused := judge.Refuse(text); refused {
		return body{reason: "has a body with " + o.Reason}, nil
	}
	text = judge.Bare(text)
	switch tree, err := b.parse(text); {
	case errors.Is(err, ErrNotNow):
		return body{reason: "has a body that was not parsed yet"}, ErrNotNow
	case err != nil:
		return body{reason: "has a body that cannot be parsed"}, nil
	default:
		r := &recorder{major: b.major}
		o := judge.Tree(text, tree, 0, r)
		if o.Kind != verdict.Read && !volatile {
			return body{reason: "has a body with " + o.Reason}, nil
		}
		return body{effects: o.Effects &^ verdict.Transaction, uses: r.uses}, nil
	}
}

// recorder is a Catalog that finds everything harmless and notes what it is asked.
type recorder struct {
	major int
	uses  []use
}

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

func (r *recorder) Written(schema, name string) judge.Standing {
	return r.note(use{kind: useWritten, schema: schema, name: name})
}

func (r *recorder) Major() int { return r.major }

func (r *recorder) Unseen() judge.Standing { return judge.Standing{} }

func (r *recorder) Defining() judge.Standing { return r.note(use{kind: useDefining}) }
