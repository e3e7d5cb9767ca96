package judge

import (
	pgquery "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// write notes the relations that a node of the tree writes: what belongs to them
// runs, though nothing in the text says so.
func (f *finder) write(m protoreflect.Message) {
	switch n := m.Interface().(type) {
	case *pgquery.InsertStmt:
		f.written(n.GetRelation())
	case *pgquery.UpdateStmt:
		f.written(n.GetRelation())
	case *pgquery.DeleteStmt:
		f.written(n.GetRelation())
	case *pgquery.MergeStmt:
		f.written(n.GetRelation())
	case *pgquery.CopyStmt:
		if n.GetIsFrom() {
			f.written(n.GetRelation())
		}
	case *pgquery.TruncateStmt:
		for _, r := range n.GetRelations() {
			f.written(r.GetRangeVar())
		}
		if n.GetBehavior() == pgquery.DropBehavior_DROP_CASCADE {
			f.effects |= verdict.Unproven // triggers of tables that are not named
		}
	case *pgquery.DoStmt:
		f.block(n)
	case *pgquery.IntoClause:
		f.made, f.defines = n.GetRel(), true
	case *pgquery.RefreshMatViewStmt:
		f.written(n.GetRelation())
	// What follows runs functions of indexes, checks and defaults over all rows. A
	// relation that is not known costs a reset, and no second look.
	case *pgquery.VacuumStmt:
		for _, r := range n.GetRels() {
			f.swept(r.GetVacuumRelation().GetRelation())
		}
		if len(n.GetRels()) == 0 {
			f.effects |= verdict.Unproven
		}
	case *pgquery.ClusterStmt:
		f.swept(n.GetRelation())
	case *pgquery.ReindexStmt:
		if n.GetKind() == pgquery.ReindexObjectType_REINDEX_OBJECT_TABLE {
			f.swept(n.GetRelation())
		} else {
			f.effects |= verdict.Unproven // an index, or a whole schema
		}
	case *pgquery.IndexStmt:
		f.swept(n.GetRelation())
	case *pgquery.AlterTableStmt:
		f.swept(n.GetRelation())
	}
}

// block notes what a DO may run. Its text is its own, since it has no template.
func (f *finder) block(n *pgquery.DoStmt) {
	language, text := "plpgsql", ""
	for _, arg := range n.GetArgs() {
		switch value := arg.GetDefElem().GetArg().GetString_().GetSval(); arg.GetDefElem().GetDefname() {
		case "language":
			language = value
		case "as":
			text = value
		}
	}
	f.effects |= f.catalog.Block(language, text).Effects
}

// written notes what a statement may run by writing a relation.
func (f *finder) written(n *pgquery.RangeVar) {
	if n == nil {
		return // COPY of a query
	}
	if f.targets == nil {
		f.targets = make(map[*pgquery.RangeVar]bool)
	}
	f.targets[n] = true
	mentionRelation(&f.names.Writes, n)
	s := f.catalog.Written(n.GetSchemaname(), n.GetRelname())
	if s.Unknown && f.unknown == "" {
		f.unknown = s.Reason
	}
	f.effects |= s.Effects
}

// swept is written, but for a relation of which nothing is known.
func (f *finder) swept(n *pgquery.RangeVar) {
	s := f.catalog.Written(n.GetSchemaname(), n.GetRelname())
	if s.Unknown || n == nil {
		s.Effects |= verdict.Unproven
	}
	f.effects |= s.Effects
}
