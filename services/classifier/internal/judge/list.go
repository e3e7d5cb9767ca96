package judge

import pgquery "github.com/pganalyze/pg_query_go/v6"

// settingList gives the JSON array of a SELECT that calls set_config once for each of its
// elements, [name, value], with the keyword TRUE, as PostGraphile does; nil for any other.
//
//	select set_config(el->>0, el->>1, true) from json_array_elements($1::json) el
func settingList(s *pgquery.SelectStmt) *pgquery.Node {
	if len(s.GetTargetList()) != 1 || len(s.GetFromClause()) != 1 || doesMore(s) {
		return nil
	}
	call := s.GetTargetList()[0].GetResTarget().GetVal().GetFuncCall()
	from := s.GetFromClause()[0].GetRangeFunction()
	if !plainCall(call, "set_config", 3) || !isTrue(call.GetArgs(), 2) || from == nil || len(from.GetFunctions()) != 1 ||
		from.GetLateral() || from.GetOrdinality() || from.GetIsRowsfrom() || len(from.GetColdeflist()) > 0 || len(from.GetAlias().GetColnames()) > 0 {
		return nil
	}
	alias := from.GetAlias().GetAliasname()
	elements := from.GetFunctions()[0].GetList().GetItems()[0].GetFuncCall()
	if alias == "" || !plainCall(elements, "json_array_elements", 1) || !isElement(call.GetArgs()[0], alias, 0) || !isElement(call.GetArgs()[1], alias, 1) {
		return nil
	}
	array := elements.GetArgs()[0]
	if cast := array.GetTypeCast(); cast != nil {
		if schema, name, ok := qualified(cast.GetTypeName().GetNames()); !ok || schema != "" && schema != systemSchema || name != "json" || len(cast.GetTypeName().GetArrayBounds()) > 0 {
			return nil
		}
		array = cast.GetArg()
	}
	return array
}

// plainCall reports whether it is a call of PostgreSQL's function of that name, with nothing but
// so many arguments.
func plainCall(call *pgquery.FuncCall, of string, arguments int) bool {
	schema, name, ok := qualified(call.GetFuncname())
	return ok && name == of && (schema == "" || schema == systemSchema) && len(call.GetArgs()) == arguments && call.GetAggFilter() == nil &&
		call.GetOver() == nil && !call.GetFuncVariadic() && !call.GetAggStar() && !call.GetAggDistinct() && len(call.GetAggOrder()) == 0
}

// isElement reports whether it is alias ->> number.
func isElement(n *pgquery.Node, alias string, number int32) bool {
	e := n.GetAExpr()
	column := e.GetLexpr().GetColumnRef().GetFields()
	return e.GetKind() == pgquery.A_Expr_Kind_AEXPR_OP && dotted(e.GetName()) == "->>" && len(column) == 1 && column[0].GetString_().GetSval() == alias &&
		e.GetRexpr().GetAConst().GetIval() != nil && e.GetRexpr().GetAConst().GetIval().GetIval() == number
}
