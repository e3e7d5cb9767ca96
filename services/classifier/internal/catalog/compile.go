package catalog

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/builtin"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// compiler makes a Snapshot of what was read.
type compiler struct {
	*contents
	*graph
	*Snapshot
	bodies *bodies
	// volatile has the functions of users that are.
	volatile map[uint32]bool
}

// compile gives the standing of every name. reads are the functions that may run
// on a replica because somebody says so (routing.read_functions).
func compile(c *contents, b *bodies, reads map[string]bool) *Snapshot {
	k := &compiler{contents: c, graph: newGraph(), Snapshot: newSnapshot(), bodies: b, volatile: make(map[uint32]bool)}
	b.major, k.Snapshot.major, b.folding = c.major, c.major, c.folding
	b.begin()
	defer b.end()
	k.addFunctions(reads)
	k.addOperators()
	k.addTypes()
	k.addRelations()
	k.addUses()
	k.addWrites()
	k.addBodies(reads)
	k.spread()
	k.settle()
	return k.Snapshot
}

func (k *compiler) addFunctions(reads map[string]bool) {
	internal := make(map[string][]int32) // users' functions by the C function behind them
	for i := range k.contents.functions {
		f := &k.contents.functions[i]
		n := k.at(object{inProc, f.ID})
		name := qualifiedName(f.Schema, f.Name)
		k.nodes[n].label = "function " + name
		k.add(k.Snapshot.functions, f.Schema, f.Name, entry{node: n, least: f.Least, most: f.Most, row: f.Row})
		if reads[name] {
			continue
		}
		if f.ID >= firstUser && f.Volatility == "v" {
			k.volatile[f.ID] = true
		}
		if f.ID < firstUser {
			if b := builtin.Lookup(f.Name, f.Types, f.Volatility[0]); !b.Reads() {
				k.spoil(n, "function "+f.Name+" ("+b.Reason+")", b.Effects)
			}
			continue
		}
		if b, ok := builtin.Extension(f.Extension, f.Name); ok && f.Language == "c" {
			if !b.Reads() {
				k.spoil(n, "function "+name+" ("+b.Reason+")", b.Effects)
			}
			continue
		}
		reason := byDeclaration(f)
		switch {
		case reason == "" && f.Transaction:
			k.spoil(n, "function "+name+" has a setting of the transaction", 0)
		case reason == "":
		case f.Volatility == "v" && looksInto[f.Language]:
			// What it leaves in the session is for its body to say.
			k.spoil(n, "function "+name+" "+reason, 0)
		default:
			k.spoil(n, "function "+name+" "+reason, verdict.Unproven)
		}
		if f.Language == "internal" {
			internal[f.Source] = append(internal[f.Source], n)
		}
	}
	// A user's internal function is one of PostgreSQL's own under another name.
	for i := range k.contents.functions {
		f := &k.contents.functions[i]
		if f.ID >= firstUser || f.Language != "internal" {
			continue
		}
		for _, n := range internal[f.Source] {
			k.uses(n, k.at(object{inProc, f.ID}))
		}
	}
}

// looksInto are the languages of functions that can be looked into.
var looksInto = map[string]bool{"sql": true, "plpgsql": true, "internal": true}

// byDeclaration says why a user's function may not be in a read, as far as its
// declaration tells.
func byDeclaration(f *functionRow) string {
	switch {
	case f.Internal && f.Language == "c":
		return "" // support of an index or of the planner: no query can call it
	case f.Volatility == "v":
		return "is volatile"
	case looksInto[f.Language]:
		return ""
	case f.Language == "c" && f.Volatility == "i":
		return ""
	case f.Language == "c":
		return "is written in C and not immutable"
	}
	return "is written in " + f.Language
}

func (k *compiler) addOperators() {
	for i := range k.contents.operators {
		o := &k.contents.operators[i]
		n := k.at(object{inOperator, o.ID})
		k.nodes[n].label = "operator " + qualifiedName(o.Schema, o.Name)
		k.add(k.Snapshot.operators, o.Schema, o.Name, entry{node: n})
		for _, f := range o.Functions {
			k.uses(n, k.at(object{inProc, f}))
		}
	}
}

func (k *compiler) addTypes() {
	for i := range k.contents.types {
		t := &k.contents.types[i]
		n := k.at(object{inType, t.ID})
		k.nodes[n].label = "type " + qualifiedName(t.Schema, t.Name)
		k.add(k.Snapshot.types, t.Schema, t.Name, entry{node: n, system: t.ID < firstUser})
	}
	for _, c := range k.casts {
		k.Snapshot.rows = k.Snapshot.rows || c.Rows
		n := k.at(object{inCast, c.ID})
		if c.Function != 0 {
			k.uses(n, k.at(object{inProc, c.Function}))
		}
		// Without a value of a user's type such a cast does not run.
		for _, t := range []uint32{c.Source, c.Target} {
			if t >= firstUser {
				k.uses(k.at(object{inType, t}), n)
			}
		}
	}
	for _, r := range k.ranges {
		k.uses(k.at(object{inType, r.From}), k.at(object{inProc, r.To}))
	}
}

func (k *compiler) addRelations() {
	for i := range k.contents.relations {
		r := &k.contents.relations[i]
		n, w := k.at(object{inRelation, r.ID}), k.at(object{inWrite, r.ID})
		k.nodes[n].label = relationKinds[r.Kind] + " " + qualifiedName(r.Schema, r.Name)
		k.nodes[w].label = "a write to " + k.nodes[n].label
		k.uses(w, n)
		k.add(k.Snapshot.relations, r.Schema, r.Name, entry{node: n, write: w})
		switch label := k.nodes[n].label; {
		case r.Schema == systemSchema:
			if !judge.SystemRelation(r.Name) {
				k.spoil(n, "relation "+r.Name, 0)
			}
		case r.Persistence == "u":
			k.spoil(n, label+" is unlogged", 0)
		case r.Kind == "S":
			k.spoil(n, label+" is read", 0)
		case r.Kind == "f":
			k.spoil(n, label+" is read", verdict.Unproven)
		case !r.Heap:
			k.spoil(n, label+" has an access method of its own", 0)
		}
	}
	for _, i := range k.inheritance {
		k.uses(k.at(object{inRelation, i.From}), k.at(object{inRelation, i.To}))
	}
}

var relationKinds = map[string]string{"r": "table", "p": "table", "v": "view", "m": "materialized view",
	"f": "foreign table", "S": "sequence"}

// addUses adds what the catalogs say of who uses whom.
func (k *compiler) addUses() {
	for _, a := range k.aggregates {
		k.uses(k.at(object{inProc, a.From}), k.at(object{inProc, a.To}))
	}
	for _, p := range k.parts {
		k.uses(k.at(object{p.OfClass, p.Of}), k.at(object{p.Class, p.ID}))
	}
	for _, d := range k.depends {
		k.uses(k.at(object{d.Class, d.ID}), k.at(object{d.OnClass, d.On}))
	}
	for _, e := range k.expressions {
		k.tree(k.at(object{e.Class, e.ID}), e.Tree)
	}
}

// callers are the fields of node trees that name functions (FuncExpr, Aggref,
// WindowFunc, OpExpr and its like; the implementation of an operator may be left
// out, so that operators count, too) and sequences (NextValueExpr). A colon begins
// a field. A name in the tree that looks like one has a backslash where a field has
// a space.
var callers = []struct {
	field string
	class uint32
}{
	{":funcid ", inProc}, {":aggfnoid ", inProc}, {":winfnoid ", inProc}, {":opfuncid ", inProc},
	{":opno ", inOperator}, {":seqid ", inRelation},
}

// locks are the marks of FOR UPDATE and its like.
const locks = ":hasForUpdate true"

// ownColumns are the marks of cmin and cmax (judge.OwnColumn) by their numbers in
// PostgreSQL's sysattr.h.
var ownColumns = []string{":varattno -3 ", ":varattno -5 "}

// tree notes the functions in a node tree. Other objects are in pg_depend.
func (k *compiler) tree(n int32, tree string) {
	for _, mark := range ownColumns {
		if strings.Contains(tree, mark) {
			k.spoil(n, "column cmin or cmax", 0)
		}
	}
	if strings.Contains(tree, locks) {
		k.spoil(n, "a locking clause", 0)
	}
	for _, c := range callers {
		for rest := tree; ; {
			_, after, found := strings.Cut(rest, c.field)
			if !found {
				break
			}
			rest = after
			if id := number(after); id != 0 {
				k.uses(n, k.at(object{c.class, id}))
			}
		}
	}
}

// number reads the digits at the beginning of a text; zero if there are none.
func number(text string) uint32 {
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, err := strconv.ParseUint(text[:end], 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// addBodies adds what the functions' bodies use.
func (k *compiler) addBodies(reads map[string]bool) {
	for i := range k.contents.functions {
		f := &k.contents.functions[i]
		n := k.at(object{inProc, f.ID})
		volatile := f.Volatility == "v"
		if f.ID < firstUser || reads[qualifiedName(f.Schema, f.Name)] || !volatile && !k.nodes[n].standing.Harmless() {
			continue
		}
		if f.Defaults != "" {
			k.tree(n, f.Defaults)
		}
		switch {
		case f.Body != "":
			k.tree(n, f.Body)
		case f.Backslashes:
			k.spoil(n, k.nodes[n].label+" has a standard_conforming_strings of its own", verdict.Unproven)
		case f.Language == "sql" || f.Language == "plpgsql":
			b := k.bodies.of(source{f.Language, f.Source, strings.Join(f.Parameters, between), volatile})
			switch {
			case b.reason != "":
				k.spoil(n, k.nodes[n].label+" "+b.reason, b.effects|verdict.Unproven)
			case b.effects != 0:
				k.spoil(n, k.nodes[n].label+" leaves something in the session", b.effects)
			}
			if b.primary != "" {
				k.spoil(n, k.nodes[n].label+" "+b.primary, 0)
			}
			for _, u := range b.uses {
				k.use(n, u)
				if b.writes && u.kind == useWord {
					k.use(n, use{kind: useWritten, name: u.name})
				}
			}
		}
	}
}

// use adds what a name in a body may stand for.
func (k *compiler) use(n int32, u use) {
	if strings.HasPrefix(u.schema, "pg_temp") {
		k.spoil(n, k.nodes[n].label+" uses temporary objects", verdict.Unproven)
		return
	}
	if u.kind == useDefining {
		k.uses(n, k.at(object{inWrite, definition}))
		return
	}
	found := false
	k.eachOf(u, func(e entry) {
		found = true
		if u.kind == useWritten {
			k.uses(n, e.write)
		} else {
			k.uses(n, e.node)
		}
	})
	if !found && (u.kind == useFunction || u.kind == useOperator && !punctuation(u.name) || u.kind == useType || u.kind == useRelation) {
		k.spoil(n, fmt.Sprintf("%s uses %s, which is not known", k.nodes[n].label, qualifiedName(u.schema, u.name)), verdict.Unproven)
	}
}

// punctuation reports whether a token is none of the operators.
func punctuation(name string) bool { return strings.ContainsAny(name, "()[],;:.") }

// settle copies the standings out of the graph.
func (k *compiler) settle() {
	for _, names := range []names{k.Snapshot.functions, k.Snapshot.operators, k.Snapshot.types, k.Snapshot.relations} {
		for _, entries := range names {
			for i := range entries {
				entries[i].standing = k.nodes[entries[i].node].standing
				if w := entries[i].write; w != 0 {
					entries[i].written = k.nodes[w].standing
				}
			}
		}
	}
	for _, t := range k.contents.types {
		if t.ID >= firstUser {
			k.Snapshot.numbered[t.ID] = k.nodes[k.at(object{inType, t.ID})].standing
		}
	}
	k.Snapshot.defining = k.nodes[k.at(object{inWrite, definition})].standing
	for _, c := range k.casts {
		if c.Source < firstUser && c.Target < firstUser {
			k.unseenBy(object{inCast, c.ID}, "a cast between types of PostgreSQL")
		}
	}
	// What users have given types of PostgreSQL to sort and group their values: operator
	// classes, where there is none, and members of the families of operators that there are.
	for _, p := range k.parts {
		if p.OfClass == inType && p.Of < firstUser {
			k.unseenBy(object{p.Class, p.ID}, "an operator class for "+k.nodes[k.at(object{p.OfClass, p.Of})].label)
		}
	}
}

func (k *compiler) unseenBy(o object, what string) {
	if s := k.nodes[k.at(o)].standing; !s.Harmless() && k.Snapshot.unseen.Harmless() {
		k.Snapshot.unseen = judge.Standing{Reason: what + ": " + s.Reason, Effects: s.Effects}
	}
}
