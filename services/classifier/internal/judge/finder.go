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
	reason  string
	effects verdict.Effect
	attributes
}

// plain are the nodes that do nothing by themselves. Those with names in them
// have a case of their own in look.
//
// The constructors and query functions of SQL/JSON (JSON_VALUE, JSON_ARRAY, …)
// are not here: the parser knows them as syntax, but servers before 16 or 17 take
// the same text for a call of a user's function.
var plain = words(`
	SelectStmt ExplainStmt DefElem WithClause CommonTableExpr CTESearchClause CTECycleClause
	ResTarget A_Star ParamRef A_Indices A_ArrayExpr RowExpr List
	BoolExpr NullTest BooleanTest CaseExpr CaseWhen CoalesceExpr MinMaxExpr NamedArgExpr
	CollateClause SQLValueFunction GroupingSet GroupingFunc WindowDef Alias JoinExpr
	RangeSubselect RangeTableFunc RangeTableFuncCol ColumnDef
	TypeCast XmlExpr XmlSerialize JsonIsPredicate JsonFormat
	Integer Float Boolean BitString`)

func (f *finder) fail(reason string) {
	if f.reason == "" {
		f.reason = reason
	}
}

func (f *finder) visit(m protoreflect.Message) {
	if n, ok := m.Interface().(*pgquery.Node); ok {
		if n.GetAConst() != nil {
			return // what a constant is must not matter
		}
		if m = inner(n); m == nil {
			return // a gap in a list, as in a[:2]
		}
	}
	f.look(m)
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil:
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

// look judges one node without its children.
func (f *finder) look(m protoreflect.Message) {
	switch n := m.Interface().(type) {
	case *pgquery.FuncCall:
		f.call(dotted(n.GetFuncname()), n)
	case *pgquery.A_Indirection:
		for _, step := range n.GetIndirection() {
			if name := step.GetString_(); name != nil {
				f.attribute(name.GetSval())
			}
		}
	case *pgquery.ColumnRef:
		f.column(n)
	case *pgquery.RangeFunction:
		if !f.from(n) {
			f.fail("a function in FROM without a name")
		}
	case *pgquery.RangeVar:
		f.relation(n)
	case *pgquery.TypeName:
		if !knownType(n) {
			f.fail("type " + dotted(n.GetNames()))
		}
	case *pgquery.A_Expr:
		f.operator(n.GetName())
	case *pgquery.SubLink:
		f.operator(n.GetOperName())
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
		if name := string(m.Descriptor().Name()); !plain[name] {
			f.fail(name)
		}
	}
}

func (f *finder) call(name string, n *pgquery.FuncCall) {
	effects, reads := function(name, n)
	f.effects |= effects
	if !reads {
		f.fail("function " + name)
	}
}

// attribute judges a name that may be a column or a function. Even one of a
// listed function may be a user's with other arguments.
func (f *finder) attribute(name string) {
	effects, _ := function(name, nil)
	f.effects |= effects | verdict.Unproven
	f.fail("attribute " + name + ", which may be a function")
}

// finish judges what could not be judged before the whole tree was seen.
func (f *finder) finish() {
	for _, name := range f.calls() {
		f.attribute(name)
	}
}

func (f *finder) relation(n *pgquery.RangeVar) {
	if n.GetRelpersistence() == "t" || isTemporary(n.GetSchemaname()) {
		f.effects |= verdict.Session
		f.fail("a temporary relation")
		return
	}
	if !readableRelation(n.GetSchemaname(), n.GetRelname()) {
		f.fail("relation " + n.GetRelname())
	}
}

func (f *finder) operator(name []*pgquery.Node) {
	if len(name) == 0 {
		return
	}
	if s, ok := systemName(name); !ok || !operators[s] && !between[s] {
		f.fail("operator " + dotted(name))
	}
}

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
