package judge

import (
	"strings"

	pgquery "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// finder walks a whole parse tree by reflection, so that no place in it can be
// forgotten, and remembers the first thing in it that is not proven to read.
type finder struct {
	catalog Catalog
	// reason is the first thing that is known not to read; unknown the first of
	// which nothing is known.
	reason, unknown string
	effects         verdict.Effect
	// locals is what is set until the end of the transaction.
	locals locals
	// defines is set if the statement makes a relation in passing (INTO).
	defines bool
	// made is the relation that the statement makes, which is not known yet.
	made *pgquery.RangeVar
	// targets are the relations that are written.
	targets map[*pgquery.RangeVar]bool
	// tables are the names of common table expressions where the finder is.
	tables scope
	// without are calls that are not looked at.
	without map[*pgquery.FuncCall]bool
	names   Names
	attributes
}

// plain are the nodes that do nothing by themselves. Those with names in them
// have a case of their own in look.
var plain = words(`
	ExplainStmt DefElem WithClause CommonTableExpr CTESearchClause CTECycleClause
	ResTarget A_Star ParamRef A_Indices A_ArrayExpr RowExpr List
	BoolExpr NullTest BooleanTest CaseWhen CoalesceExpr MinMaxExpr NamedArgExpr
	CollateClause SQLValueFunction GroupingSet GroupingFunc WindowDef Alias
	RangeSubselect RangeTableFunc RangeTableFuncCol ColumnDef
	TypeCast XmlExpr XmlSerialize JsonIsPredicate JsonFormat
	Integer Float Boolean BitString`)

// sqlJSON are the constructors and query functions of SQL/JSON, each with the release
// from which it is syntax. Servers before it take the same text for a call of a
// user's function.
var sqlJSON = map[string]int{
	"JsonObjectConstructor": 16, "JsonArrayConstructor": 16, "JsonArrayQueryConstructor": 16, "JsonObjectAgg": 16, "JsonArrayAgg": 16,
	"JsonAggConstructor": 16, "JsonOutput": 16, "JsonReturning": 16, "JsonValueExpr": 16, "JsonKeyValue": 16,
	"JsonParseExpr": 17, "JsonScalarExpr": 17, "JsonSerializeExpr": 17, "JsonFuncExpr": 17, "JsonTable": 17, "JsonTableColumn": 17,
	"JsonTablePathSpec": 17, "JsonArgument": 17, "JsonBehavior": 17,
}

func (f *finder) fail(reason string) {
	if f.reason == "" {
		f.reason = reason
	}
}

// take notes what the catalog says of a name.
func (f *finder) take(s Standing) {
	if s.Unknown && f.unknown == "" {
		f.unknown = s.Reason
	}
	if !s.Unknown && !s.Harmless() {
		f.fail(s.Reason)
	}
	f.effects |= s.Effects
}

func (f *finder) visit(m protoreflect.Message) {
	if n, ok := m.Interface().(*pgquery.Node); ok {
		if n.GetAConst() != nil {
			return // what a constant is must not matter
		}
		if m = inner(n); m == nil {
			return // a gap in a list, as in a[:2]
		}
		if n.GetLockingClause() != nil {
			f.fail("LockingClause")
			return // the relations in it are named as in FROM, by their aliases
		}
	}
	f.look(m)
	f.write(m)
	with := m.Descriptor().Fields().ByName("with_clause")
	if with != nil {
		defer f.tables.leave(len(f.tables.names))
		f.with(m.Get(with).Message())
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil, fd == with:
		case fd.IsList():
			for l, i := v.List(), 0; i < l.Len(); i++ {
				f.visit(l.Get(i).Message())
			}
		default:
			f.visit(v.Message())
		}
		return true
	})
}

// with visits the common table expressions of a statement and brings their names
// into scope. An expression sees those before it, and with RECURSIVE all.
func (f *finder) with(m protoreflect.Message) {
	clause, ok := m.Interface().(*pgquery.WithClause)
	if !ok || clause == nil {
		return
	}
	f.look(m)
	if clause.GetRecursive() {
		for _, n := range clause.GetCtes() {
			f.tables.enter(n.GetCommonTableExpr().GetCtename())
		}
	}
	for _, n := range clause.GetCtes() {
		f.visit(n.ProtoReflect())
		f.tables.enter(n.GetCommonTableExpr().GetCtename())
	}
}

// scope has names, of which those that came last go first.
type scope struct {
	names []string
	count map[string]int
}

func (s *scope) enter(name string) {
	if s.count == nil {
		s.count = make(map[string]int)
	}
	s.names = append(s.names, name)
	s.count[name]++
}

// leave forgets all names but the first n.
func (s *scope) leave(n int) {
	for _, name := range s.names[n:] {
		s.count[name]--
	}
	s.names = s.names[:n]
}

func (s *scope) has(name string) bool { return s.count[name] > 0 }

// look judges one node without its children.
func (f *finder) look(m protoreflect.Message) {
	switch n := m.Interface().(type) {
	case *pgquery.FuncCall:
		if !f.without[n] {
			f.call(n)
		}
	case *pgquery.SelectStmt:
		f.locks(n)
	case *pgquery.CopyStmt:
		if !copiesOut(n) {
			f.fail("CopyStmt")
		}
	case *pgquery.LockStmt:
		for _, r := range n.GetRelations() {
			mentionRelation(&f.names.Locks, r.GetRangeVar())
		}
		f.fail("LockStmt")
	case *pgquery.A_Indirection:
		for _, step := range n.GetIndirection() {
			if name := step.GetString_(); name != nil {
				f.take(f.catalog.Attribute(name.GetSval(), false))
			}
		}
	case *pgquery.ColumnRef:
		if name := n.GetFields()[len(n.GetFields())-1].GetString_().GetSval(); OwnColumn(name) {
			f.fail("column " + name)
		}
		f.column(n)
	case *pgquery.RangeFunction:
		if !f.from(n) {
			f.fail("a function in FROM without a name")
		}
	case *pgquery.RangeVar:
		f.relation(n)
	case *pgquery.TypeName:
		f.typeName(n)
	case *pgquery.A_Expr:
		f.operators(n)
	case *pgquery.SubLink:
		f.operator(n.GetOperName())
		if n.GetSubLinkType() == pgquery.SubLinkType_ANY_SUBLINK && len(n.GetOperName()) == 0 {
			f.equality()
		}
	case *pgquery.CaseExpr:
		if n.GetArg() != nil {
			f.equality()
		}
	case *pgquery.JoinExpr:
		if n.GetIsNatural() || len(n.GetUsingClause()) > 0 {
			f.equality()
		}
	case *pgquery.SortBy:
		f.operator(n.GetUseOp())
	case *pgquery.RangeTableSample:
		if name := dotted(n.GetMethod()); name != "bernoulli" && name != "system" {
			f.fail("sampling method " + name)
		}
	case *pgquery.ExecuteStmt:
		f.effects |= verdict.Unproven
		f.fail("EXECUTE")
	case *pgquery.String:
		if isTemporary(n.GetSval()) {
			f.effects |= verdict.Session
		}
	default:
		name := string(m.Descriptor().Name())
		if since := sqlJSON[name]; !plain[name] && (since == 0 || f.catalog.Major() < since) {
			f.fail(name)
		}
	}
}

func (f *finder) call(n *pgquery.FuncCall) {
	schema, name, ok := qualified(n.GetFuncname())
	mention(&f.names.Calls, "", dotted(n.GetFuncname()))
	if !ok {
		f.effects |= verdict.Unproven
		f.fail("function " + dotted(n.GetFuncname()))
		return
	}
	if name == "set_config" && (schema == "" || schema == systemSchema) && isTrue(n.GetArgs(), 2) {
		f.fail("function set_config")
		f.locals.call(n)
		f.effects |= f.catalog.Others(schema, name, len(n.GetArgs())).Effects
		return
	}
	arguments := len(n.GetArgs())
	if n.GetAggWithinGroup() {
		arguments += len(n.GetAggOrder())
	}
	if n.GetFuncVariadic() {
		arguments = AnyArguments
	}
	found := f.catalog.Function(schema, name, arguments)
	if found.Unknown && schema == "" && name == "unnest" && arguments > 1 {
		found = f.catalog.Function(schema, name, 1) // in FROM, once for each argument
	}
	f.take(found)
}

// isTrue reports whether an argument is the keyword TRUE, which unlike 't' is the
// same in every text of a template.
func isTrue(args []*pgquery.Node, i int) bool {
	return i < len(args) && args[i].GetAConst().GetBoolval().GetBoolval()
}

// finish judges what could not be judged before the whole tree was seen.
func (f *finder) finish() {
	for _, a := range f.used {
		// Also where the alias is that of a function: elsewhere it may be that of a table.
		f.take(f.catalog.Attribute(a.name, true))
		if known, ok := f.columns[a.alias]; ok && !known[a.name] || f.catalog.Parameter(a.alias) {
			f.take(f.catalog.Attribute(a.name, false))
		}
	}
}

func (f *finder) relation(n *pgquery.RangeVar) {
	if n.GetRelpersistence() == "t" || isTemporary(n.GetSchemaname()) {
		f.effects |= verdict.Session
		f.fail("a temporary relation")
		return
	}
	if n == f.made || n.GetSchemaname() == "" && f.tables.has(n.GetRelname()) {
		return
	}
	if !f.targets[n] {
		mentionRelation(&f.names.Reads, n)
	}
	f.take(f.catalog.Relation(n.GetSchemaname(), n.GetRelname()))
}

func (f *finder) typeName(t *pgquery.TypeName) {
	schema, name, ok := qualified(t.GetNames())
	if !ok || t.GetSetof() || t.GetPctType() {
		f.fail("type " + dotted(t.GetNames()))
		return
	}
	f.take(f.catalog.Type(schema, name))
}

// operators judges those of an expression, some of which have no name in the text.
func (f *finder) operators(n *pgquery.A_Expr) {
	switch n.GetKind() {
	case pgquery.A_Expr_Kind_AEXPR_BETWEEN, pgquery.A_Expr_Kind_AEXPR_NOT_BETWEEN,
		pgquery.A_Expr_Kind_AEXPR_BETWEEN_SYM, pgquery.A_Expr_Kind_AEXPR_NOT_BETWEEN_SYM:
		for _, name := range []string{"<", "<=", ">", ">="} {
			f.take(f.catalog.Operator("", name))
		}
		return
	}
	f.operator(n.GetName())
}

func (f *finder) operator(path []*pgquery.Node) {
	if len(path) == 0 {
		return
	}
	schema, name, ok := qualified(path)
	if !ok {
		f.fail("operator " + dotted(path))
		return
	}
	f.take(f.catalog.Operator(schema, name))
}

// equality judges the operator that CASE x WHEN, IN, USING and NATURAL JOIN imply.
func (f *finder) equality() { f.take(f.catalog.Operator("", "=")) }

// inner unwraps a Node; nil if it is empty.
func inner(n *pgquery.Node) protoreflect.Message {
	var m protoreflect.Message
	r := n.ProtoReflect()
	r.Range(func(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		m = v.Message()
		return false
	})
	return m
}

// dotted joins the parts of a possibly qualified name.
func dotted(name []*pgquery.Node) string {
	parts := make([]string, len(name))
	for i, n := range name {
		parts[i] = n.GetString_().GetSval()
	}
	return strings.Join(parts, ".")
}
