package catalog

import (
	"slices"
	"strings"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

const systemSchema = "pg_catalog"

// Snapshot is what names stand for in one database at one time. It never changes.
type Snapshot struct {
	functions, operators, types, relations names
	// numbered are the users' types by their numbers.
	numbered         map[uint32]judge.Standing
	unseen, defining judge.Standing
	// temporary are the names of temporary relations.
	temporary map[string]bool
	// rows says that rows are converted to other types implicitly, so that a function of
	// such a type can be what looks like a column of a row.
	rows bool
	// major is the server's release.
	major int
}

var _ judge.Catalog = (*Snapshot)(nil)

// names are entries by their name without the schema.
type names map[string][]entry

// entry is one object of a name.
type entry struct {
	schema   string
	standing judge.Standing
	node     int32
	// write is the node of a write to a relation, and written its standing.
	write   int32
	written judge.Standing
	// least and most arguments of a function; most is -1 if there is no such number.
	least, most int32
	// row: the first argument of the function can be a row.
	row bool
	// system types are PostgreSQL's own.
	system bool
}

func newSnapshot() *Snapshot {
	return &Snapshot{functions: make(names), operators: make(names), types: make(names), relations: make(names),
		numbered: make(map[uint32]judge.Standing)}
}

func (s *Snapshot) add(to names, schema, name string, e entry) {
	e.schema = schema
	to[name] = append(to[name], e)
}

func (e *entry) takes(arguments int) bool {
	return arguments == judge.AnyArguments || int(e.least) <= arguments && (e.most < 0 || arguments <= int(e.most))
}

// eachOf calls f with whatever the name may stand for.
func (s *Snapshot) eachOf(u use, f func(entry)) {
	in := func(of names, match func(entry) bool) {
		for _, e := range of[u.name] {
			if (u.schema == "" || e.schema == u.schema) && match(e) {
				f(e)
			}
		}
	}
	any := func(entry) bool { return true }
	switch u.kind {
	case useFunction:
		in(s.functions, func(e entry) bool { return e.takes(u.arguments) })
		if u.arguments == 1 {
			in(s.types, any) // a cast written like a call
		}
	case useOthers:
		in(s.functions, func(e entry) bool { return e.takes(u.arguments) && e.schema != systemSchema })
	case useAttribute:
		in(s.functions, func(e entry) bool { return e.takes(1) })
		in(s.types, any)
	case useRow:
		if s.rows {
			u.kind = useAttribute
			s.eachOf(u, f)
			return
		}
		// Of PostgreSQL's own functions none that takes a row is dangerous.
		in(s.functions, func(e entry) bool { return e.takes(1) && e.row && e.schema != systemSchema })
		in(s.types, func(e entry) bool { return !e.system })
	case useOperator:
		in(s.operators, any)
	case useType:
		in(s.types, any)
	case useRelation, useWritten:
		in(s.relations, any)
	case useWord:
		in(s.functions, any)
		in(s.types, any)
		in(s.relations, any)
	}
}

// standing is that of the worst of what the name may stand for.
func (s *Snapshot) standing(u use, what string) judge.Standing {
	var worst judge.Standing
	found := false
	s.eachOf(u, func(e entry) {
		found = true
		if u.kind == useWritten {
			worst = worse(worst, e.written)
		} else {
			worst = worse(worst, e.standing)
		}
	})
	if !found && what != "" {
		return judge.Standing{Reason: what + " " + qualifiedName(u.schema, u.name) + ", which is not known", Unknown: true}
	}
	return worst
}

func worse(a, b judge.Standing) judge.Standing {
	if a.Harmless() {
		a.Reason = b.Reason
	}
	a.Effects |= b.Effects
	return a
}

// Function implements judge.Catalog.
func (s *Snapshot) Function(schema, name string, arguments int) judge.Standing {
	found := s.standing(use{useFunction, schema, name, arguments}, "function")
	if found.Unknown {
		found.Effects |= verdict.Unproven
	}
	return found
}

// Others implements judge.Catalog.
func (s *Snapshot) Others(schema, name string, arguments int) (worst judge.Standing) {
	s.eachOf(use{useOthers, schema, name, arguments}, func(e entry) {
		worst = worse(worst, e.standing)
		if worst.Harmless() {
			worst.Reason = "function " + qualifiedName(e.schema, name)
		}
	})
	return worst
}

// Block implements judge.Catalog.
func (s *Snapshot) Block(language, text string) (found judge.Standing) {
	if language != "plpgsql" {
		return judge.Standing{Effects: verdict.Unproven}
	}
	b := plpgsql(text, true)
	found.Effects = b.effects | s.defining.Effects
	if b.reason != "" {
		found.Effects |= verdict.Unproven
	}
	for _, u := range b.uses {
		found.Effects |= s.standing(u, "").Effects
		if b.writes && u.kind == useWord {
			found.Effects |= s.standing(use{kind: useWritten, name: u.name}, "").Effects
		}
	}
	return found
}

// Parameter implements judge.Catalog.
func (s *Snapshot) Parameter(string) bool { return false }

// Attribute implements judge.Catalog. A name of which nothing is known is that of
// a column.
func (s *Snapshot) Attribute(name string, row bool) judge.Standing {
	kind := useAttribute
	if row {
		kind = useRow
	}
	return s.standing(use{kind: kind, name: name}, "")
}

// Operator implements judge.Catalog.
func (s *Snapshot) Operator(schema, name string) judge.Standing {
	return s.standing(use{kind: useOperator, schema: schema, name: name}, "operator")
}

// Type implements judge.Catalog. Names of PostgreSQL's may be numbers, those of the
// types of parameters (verdict.AppendTyped).
func (s *Snapshot) Type(schema, name string) judge.Standing {
	if n, ok := verdict.TypeNumber(name); ok && schema == systemSchema {
		if found, ok := s.numbered[n]; ok {
			return found
		}
	}
	return s.standing(use{kind: useType, schema: schema, name: name}, "type")
}

// Relation implements judge.Catalog. A temporary relation counts only if there is
// no other: its session is kept on the primary.
func (s *Snapshot) Relation(schema, name string) judge.Standing {
	return s.relation(useRelation, schema, name)
}

// Written implements judge.Catalog.
func (s *Snapshot) Written(schema, name string) judge.Standing {
	return s.relation(useWritten, schema, name)
}

func (s *Snapshot) relation(kind useKind, schema, name string) judge.Standing {
	found := s.standing(use{kind: kind, schema: schema, name: name}, "relation")
	switch {
	case !found.Unknown:
		return found
	case strings.HasPrefix(schema, "pg_") && schema != systemSchema: // pg_toast
		return judge.Standing{Reason: found.Reason}
	}
	if schema == "" || schema == systemSchema {
		if judge.SystemRelation(name) {
			return judge.Standing{} // a table with a fixed number
		}
	}
	if schema == "" && s.temporary[name] {
		return judge.Standing{Reason: "a temporary relation"}
	}
	return found
}

// Unseen implements judge.Catalog.
func (s *Snapshot) Unseen() judge.Standing { return s.unseen }

// Major implements judge.Catalog.
func (s *Snapshot) Major() int { return s.major }

// Defining implements judge.Catalog.
func (s *Snapshot) Defining() judge.Standing { return s.defining }

// Spoils reports whether a verdict that was right under s may be wrong under
// next: whether something known now stands for something else, or a new function
// may be what looks like a column.
func (s *Snapshot) Spoils(next *Snapshot) bool {
	if !same(s.unseen, next.unseen) || !same(s.defining, next.defining) || s.rows != next.rows {
		return true
	}
	for _, pair := range [][2]names{{s.functions, next.functions}, {s.operators, next.operators}, {s.types, next.types}, {s.relations, next.relations}} {
		for name, old := range pair[0] {
			if now, ok := pair[1][name]; ok && !slices.EqualFunc(summary(old), summary(now), equal) {
				return true
			}
		}
	}
	for name, now := range next.functions {
		if _, ok := s.functions[name]; !ok && slices.ContainsFunc(now, func(e entry) bool { return e.takes(1) && !e.standing.Harmless() }) {
			return true
		}
	}
	for name, now := range next.relations {
		if _, ok := s.relations[name]; ok {
			continue
		}
		switch {
		case s.temporary[name]:
			return true // was the name of temporary ones only
		case judge.SystemRelation(name) && slices.ContainsFunc(now, func(e entry) bool { return !e.standing.Harmless() }):
			return true // was that of a table with a fixed number only
		}
	}
	for name, now := range next.types {
		if _, ok := s.types[name]; !ok && slices.ContainsFunc(now, func(e entry) bool { return !e.standing.Harmless() }) {
			return true
		}
	}
	return false
}

// with gives a copy that knows of other temporary relations.
func (s *Snapshot) with(temporary map[string]bool) *Snapshot {
	c := *s
	c.temporary = temporary
	return &c
}

// same compares what judges look at.
func same(a, b judge.Standing) bool {
	return a.Harmless() == b.Harmless() && a.Effects == b.Effects
}

func equal(a, b entry) bool {
	return a.schema == b.schema && a.least == b.least && a.most == b.most && a.row == b.row && same(a.standing, b.standing) &&
		a.written.Effects == b.written.Effects
}

// summary is a name's entries in an order that does not depend on how they were
// read.
func summary(entries []entry) []entry {
	out := slices.Clone(entries)
	slices.SortFunc(out, func(a, b entry) int {
		if c := strings.Compare(a.schema, b.schema); c != 0 {
			return c
		}
		for _, d := range []int{int(a.least - b.least), int(a.most - b.most), sign(a.row) - sign(b.row),
			sign(a.standing.Harmless()) - sign(b.standing.Harmless()), int(a.standing.Effects) - int(b.standing.Effects), int(a.written.Effects) - int(b.written.Effects)} {
			if d != 0 {
				return d
			}
		}
		return 0
	})
	return out
}

func sign(b bool) int {
	if b {
		return 1
	}
	return 0
}

func qualifiedName(schema, name string) string {
	if schema == "" || schema == systemSchema {
		return name
	}
	return schema + "." + name
}

// Size is the number of names known, for metrics.
func (s *Snapshot) Size() int {
	return len(s.functions) + len(s.operators) + len(s.types) + len(s.relations)
}
