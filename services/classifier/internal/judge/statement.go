package judge

import (
	"strings"

	pgquery "github.com/pganalyze/pg_query_go/v6"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// statement judges one statement of a text.
func statement(n *pgquery.Node, c Catalog) Opinion { return hear(n, c, nil) }

// hear judges a statement without some of the calls in it.
func hear(n *pgquery.Node, c Catalog, without map[*pgquery.FuncCall]bool) Opinion {
	m := inner(n)
	if m == nil {
		return Opinion{Verdict: verdict.Unclassified(), Reason: "a statement without content"}
	}
	name := string(m.Descriptor().Name())
	reason, effects := command(n, name)
	f := finder{catalog: c, reason: reason, effects: effects, without: without}
	f.visit(m)
	f.finish()
	if f.reason == "" || runs[name] {
		f.take(c.Unseen())
	}
	o := Opinion{Reason: f.reason, Defines: defines(name), Names: f.names, Template: templates[name]}
	if f.defines || o.Defines || grants[name] {
		f.effects |= c.Defining().Effects
	}
	// What a definition names need not exist yet, and nothing of it runs.
	if f.unknown != "" && (f.reason == "" || runs[name]) {
		o.Unknown = true
		f.effects |= verdict.Unproven
	}
	o.Effects, o.locals = f.effects&^Local, f.locals
	if f.effects.Has(Local) {
		o.note(verdict.Operand{}, verdict.Unproven)
	}
	if n.GetPrepareStmt() != nil {
		o.locals = locals{} // what it prepares does not run yet
	}
	o.Effects |= o.setsLocally(n.GetVariableSetStmt())
	o.makes = f.defines || makes(name)
	switch {
	case f.reason == "" && f.unknown != "":
		o.Reason = f.unknown
	case f.reason == "" && (o.Effects != 0 || o.unfollowed != 0):
		o.Reason = (o.Effects | o.unfollowed).String()
	case f.reason == "":
		o.Kind = verdict.Read
	}
	return o
}

// makes reports whether a kind of statement may make something where search_path says.
func makes(name string) bool {
	return strings.HasPrefix(name, "Create") || name == "ViewStmt" || name == "DefineStmt" || name == "CompositeTypeStmt"
}

// defines reports whether a kind of statement may change what names stand for.
func defines(name string) bool {
	for _, verb := range []string{"Create", "Alter", "Drop", "Do", "Call"} {
		if strings.HasPrefix(name, verb) {
			return true
		}
	}
	return definitions[name]
}

var definitions = words(`
	DefineStmt ViewStmt RuleStmt IndexStmt RenameStmt CompositeTypeStmt ImportForeignSchemaStmt
	ExecuteStmt`)

// grants are the commands that event triggers hear of although they define no name.
var grants = words(`
	GrantStmt CommentStmt SecLabelStmt RefreshMatViewStmt ReindexStmt ReassignOwnedStmt`)

// templates are the commands of which sqltoken makes templates.
var templates = words(`SelectStmt InsertStmt UpdateStmt DeleteStmt MergeStmt`)

// runs are the commands that run expressions and queries in them, or what belongs to
// the relations in them.
var runs = words(`
	SelectStmt InsertStmt UpdateStmt DeleteStmt MergeStmt CopyStmt ExplainStmt CreateTableAsStmt
	DeclareCursorStmt PrepareStmt ExecuteStmt CallStmt TruncateStmt RefreshMatViewStmt`)

// command judges what the kind of statement says by itself; finder looks at what
// is in it.
func command(n *pgquery.Node, name string) (reason string, effects verdict.Effect) {
	reason = name
	switch s := n.GetNode().(type) {
	case *pgquery.Node_SelectStmt:
		return "", 0
	case *pgquery.Node_ExplainStmt:
		return explain(s.ExplainStmt), 0
	case *pgquery.Node_CopyStmt:
		if copiesOut(s.CopyStmt) {
			return "", 0
		}
		return reason, 0
	case *pgquery.Node_TransactionStmt:
		return reason, verdict.Transaction
	case *pgquery.Node_VariableSetStmt:
		return reason, set(s.VariableSetStmt)
	case *pgquery.Node_PrepareStmt, *pgquery.Node_DeallocateStmt, *pgquery.Node_ListenStmt,
		*pgquery.Node_UnlistenStmt:
		return reason, verdict.Session
	case *pgquery.Node_ImportForeignSchemaStmt:
		if isTemporary(s.ImportForeignSchemaStmt.GetLocalSchema()) {
			return reason, verdict.Session
		}
		return reason, 0
	case *pgquery.Node_LoadStmt:
		return reason, verdict.Session | verdict.Indelible
	case *pgquery.Node_DeclareCursorStmt:
		if s.DeclareCursorStmt.GetOptions()&cursorWithHold != 0 {
			return reason, verdict.Session
		}
		return reason, 0 // ends with its transaction
	case *pgquery.Node_DiscardStmt:
		if s.DiscardStmt.GetTarget() == pgquery.DiscardMode_DISCARD_ALL {
			return reason, verdict.ResetsSession
		}
		return reason, 0 // leaves less than there was
	}
	if quiet[name] {
		return reason, 0
	}
	return reason, verdict.Unproven
}

// copiesOut reports whether a COPY sends rows to the client and does nothing else by
// itself.
func copiesOut(s *pgquery.CopyStmt) bool {
	return !s.GetIsFrom() && !s.GetIsProgram() && s.GetFilename() == ""
}

// cursorWithHold is CURSOR_OPT_HOLD of PostgreSQL's parsenodes.h.
const cursorWithHold = 0x0020

// harmlessExplain are the options of EXPLAIN that leave it a look at a plan. What
// is not here, ANALYZE above all, is not: with any argument, since that may be a
// constant.
var harmlessExplain = words("verbose costs settings generic_plan buffers summary memory format")

// explain says why an EXPLAIN is a write by itself, or nothing. Its statement is
// looked at like any other part of the tree.
func explain(s *pgquery.ExplainStmt) string {
	for _, o := range s.GetOptions() {
		if name := o.GetDefElem().GetDefname(); !harmlessExplain[name] {
			return "EXPLAIN with option " + name
		}
	}
	return ""
}

// set gives the effects of SET and RESET by themselves.
func set(s *pgquery.VariableSetStmt) verdict.Effect {
	switch s.GetKind() {
	case pgquery.VariableSetKind_VAR_SET_MULTI:
		if s.GetName() == "SESSION CHARACTERISTICS" {
			return verdict.Transaction | verdict.Session
		}
		return verdict.Transaction // TRANSACTION, TRANSACTION SNAPSHOT
	case pgquery.VariableSetKind_VAR_SET_VALUE, pgquery.VariableSetKind_VAR_SET_DEFAULT:
		switch s.GetName() {
		case "transaction_read_only", "transaction_isolation", "transaction_deferrable":
			// The same as SET TRANSACTION, and as short-lived.
			return verdict.Transaction
		case "seed": // as setseed
			return verdict.Session | verdict.Indelible
		}
		if s.GetIsLocal() {
			return 0
		}
	}
	return verdict.Session
}

// quiet are the commands whose kind leaves nothing in the server session. The
// functions, temporary objects and written relations in them are found by themselves.
// Not here because they run code that the text does not show: DO, EXECUTE, CREATE and
// ALTER EXTENSION.
var quiet = words(`
	InsertStmt UpdateStmt DeleteStmt MergeStmt CopyStmt TruncateStmt LockStmt CreateTableAsStmt CallStmt
	RefreshMatViewStmt FetchStmt ClosePortalStmt NotifyStmt VariableShowStmt ConstraintsSetStmt
	CheckPointStmt VacuumStmt ClusterStmt ReindexStmt
	CreateStmt CreateSchemaStmt CreateSeqStmt CreateDomainStmt CreateEnumStmt CreateRangeStmt
	CompositeTypeStmt CreateFunctionStmt CreateCastStmt CreateConversionStmt CreateTransformStmt
	CreateOpClassStmt CreateOpFamilyStmt CreateStatsStmt CreateTrigStmt CreateEventTrigStmt
	CreatePolicyStmt CreatePLangStmt CreateAmStmt CreateFdwStmt CreateForeignServerStmt
	CreateForeignTableStmt CreateUserMappingStmt CreatePublicationStmt CreateSubscriptionStmt
	CreateTableSpaceStmt CreatedbStmt CreateRoleStmt DefineStmt IndexStmt ViewStmt RuleStmt
	AlterTableStmt AlterTableMoveAllStmt AlterTableSpaceOptionsStmt AlterSeqStmt AlterDomainStmt
	AlterEnumStmt AlterTypeStmt AlterFunctionStmt AlterCollationStmt AlterOperatorStmt
	AlterOpFamilyStmt AlterStatsStmt AlterEventTrigStmt AlterPolicyStmt AlterFdwStmt
	AlterForeignServerStmt AlterUserMappingStmt AlterPublicationStmt AlterSubscriptionStmt
	AlterDatabaseStmt AlterDatabaseRefreshCollStmt AlterDatabaseSetStmt AlterRoleStmt
	AlterRoleSetStmt AlterSystemStmt AlterDefaultPrivilegesStmt AlterObjectDependsStmt
	AlterObjectSchemaStmt AlterOwnerStmt AlterExtensionContentsStmt AlterTSConfigurationStmt
	AlterTSDictionaryStmt ReplicaIdentityStmt RenameStmt
	DropStmt DropdbStmt DropRoleStmt DropTableSpaceStmt DropUserMappingStmt DropOwnedStmt
	DropSubscriptionStmt ReassignOwnedStmt
	GrantStmt GrantRoleStmt CommentStmt SecLabelStmt`)
