package judge

import (
	"sync"

	pgquery "github.com/pganalyze/pg_query_go/v6"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

const (
	// maxParts bounds the statements of a text that are told apart: more would not travel.
	maxParts = verdict.MaxDetail / len(`{"kind":"read"},`)
	// maxSettings bounds the calls of set_config in a statement of which is told.
	maxSettings = verdict.MaxDetail / len(`{"name":{"param":1},"value":{"param":2},"local":{"param":3}},`)
)

// detail gives what there is to tell of a text beyond kind and effects, nil for
// nothing. opinions are those of its statements.
func detail(text string, stmts []*pgquery.RawStmt, opinions []Opinion, c Catalog) *verdict.Detail {
	several := len(stmts) > 1
	if len(stmts) > maxParts {
		return nil
	}
	d := &verdict.Detail{Parts: make([]verdict.Part, len(stmts))}
	literals := sync.OnceValue(func() map[int32]int { return literalsOf(text) })
	telling := several
	for i, s := range stmts {
		p := &d.Parts[i]
		p.Kind, p.Effects = opinions[i].Kind, opinions[i].Effects
		if several {
			p.Start, p.End = int(s.GetStmtLocation()), len(text)
			if n := int(s.GetStmtLen()); n > 0 {
				p.End = p.Start + n
			}
		}
		describe(p, s.GetStmt(), literals, c)
		if o := &opinions[i]; o.own != 0 || len(o.names) != 1 {
			p.List = nil
		}
		if o := &opinions[i]; len(o.names) > 0 && len(o.names) <= maxSettings && (p.Settings == nil || p.Rest == o.own) {
			p.Locals, p.Rest = o.operands(literals), o.own
		}
		telling = telling || p.Prepare != nil || p.Execute != nil || p.Settings != nil || p.Locals != nil
	}
	if !telling || !d.Travels() {
		return nil
	}
	return d
}

// describe tells of one statement. literals gives literalsOf the text.
func describe(p *verdict.Part, n *pgquery.Node, literals func() map[int32]int, c Catalog) {
	switch s := n.GetNode().(type) {
	case *pgquery.Node_PrepareStmt:
		o := statement(s.PrepareStmt.GetQuery(), c)
		p.Prepare = &verdict.Prepare{Name: s.PrepareStmt.GetName(), Kind: o.Kind, Effects: o.Effects | o.unfollowed}
		// Parameters are converted to their types, with what these run, by each EXECUTE.
		f := finder{catalog: c}
		for _, t := range s.PrepareStmt.GetArgtypes() {
			f.visit(t.ProtoReflect())
		}
		p.Prepare.Effects |= f.effects
		if f.unknown != "" {
			p.Prepare.Effects |= verdict.Unproven
		}
		if f.reason != "" || p.Prepare.Effects != 0 {
			p.Prepare.Kind = verdict.Write
		}
	case *pgquery.Node_ExecuteStmt:
		f := finder{catalog: c}
		for _, param := range s.ExecuteStmt.GetParams() {
			f.visit(param.ProtoReflect())
		}
		f.finish()
		f.take(c.Unseen())
		p.Execute = &verdict.Execute{Name: s.ExecuteStmt.GetName(), Kind: verdict.Write, Effects: f.effects}
		switch {
		case f.unknown != "":
			p.Execute.Effects |= verdict.Unproven
		case f.reason == "" && f.effects == 0:
			p.Execute.Kind = verdict.Read
		}
	case *pgquery.Node_SelectStmt:
		if array := settingList(s.SelectStmt); array != nil && c.Others("", "set_config", 3).Harmless() {
			if o, ok := operandOf(array, literals()); ok {
				p.List = &o
			}
			return
		}
		calls := settingCalls(s.SelectStmt, c)
		if calls == nil || len(calls) > maxSettings {
			return
		}
		without := make(map[*pgquery.FuncCall]bool, len(calls))
		for _, call := range calls {
			without[call] = true
			setting, ok := settingOf(call, literals())
			if !ok {
				p.Settings = nil
				return
			}
			p.Settings = append(p.Settings, setting)
		}
		p.Rest = hear(n, c, without).Effects
	}
}

// settingCalls gives the calls of set_config of a SELECT that does nothing else, so
// that each runs exactly once; nil for any other.
func settingCalls(s *pgquery.SelectStmt, c Catalog) (calls []*pgquery.FuncCall) {
	if len(s.GetFromClause()) > 0 || doesMore(s) {
		return nil
	}
	for _, t := range s.GetTargetList() {
		value := t.GetResTarget().GetVal()
		if value.GetAConst() != nil || value.GetParamRef() != nil {
			continue
		}
		call := value.GetFuncCall()
		if !plainCall(call, "set_config", 3) {
			return nil
		}
		schema, name, _ := qualified(call.GetFuncname())
		if found := c.Function(schema, name, 3); found.Unknown || found.Effects != verdict.Session || !c.Others(schema, name, 3).Harmless() {
			return nil // another function of that name
		}
		calls = append(calls, call)
	}
	return calls
}

// doesMore reports whether a SELECT is more than a list of targets and where it takes them from.
func doesMore(s *pgquery.SelectStmt) bool {
	return s.GetWhereClause() != nil || len(s.GetGroupClause()) > 0 || s.GetHavingClause() != nil ||
		len(s.GetWindowClause()) > 0 || len(s.GetValuesLists()) > 0 || s.GetLimitCount() != nil || s.GetLimitOffset() != nil ||
		len(s.GetLockingClause()) > 0 || s.GetWithClause() != nil || s.GetIntoClause() != nil || s.GetOp() != pgquery.SetOperation_SETOP_NONE ||
		len(s.GetSortClause()) > 0 || len(s.GetDistinctClause()) > 0
}

func settingOf(call *pgquery.FuncCall, literals map[int32]int) (s verdict.Setting, ok bool) {
	args := call.GetArgs()
	var ok1, ok2, ok3 bool
	s.Name, ok1 = operandOf(args[0], literals)
	s.Value, ok2 = operandOf(args[1], literals)
	s.Local, ok3 = operandOf(args[2], literals)
	return s, ok1 && ok2 && ok3
}

// operandOf gives where an argument comes from, if it is a constant or a parameter,
// perhaps with a cast that leaves its text as it is.
func operandOf(n *pgquery.Node, literals map[int32]int) (o verdict.Operand, ok bool) {
	if n, ok = withoutCast(n); !ok {
		return o, false
	}
	if p := n.GetParamRef(); p != nil {
		return verdict.Operand{Param: int(p.GetNumber())}, p.GetNumber() > 0
	}
	c := n.GetAConst()
	switch {
	case c == nil:
		return o, false
	case c.GetIsnull():
		return verdict.Operand{Word: "null"}, true
	case c.GetBoolval() != nil && c.GetBoolval().GetBoolval():
		return verdict.Operand{Word: "true"}, true
	case c.GetBoolval() != nil:
		return verdict.Operand{Word: "false"}, true
	case c.GetSval() == nil:
		return o, false
	}
	number := literals[c.GetLocation()]
	return verdict.Operand{Literal: number}, number > 0
}

// withoutCast takes a cast away that leaves a text as it is; ok is false if it may not.
func withoutCast(n *pgquery.Node) (arg *pgquery.Node, ok bool) {
	cast := n.GetTypeCast()
	if cast == nil {
		return n, true
	}
	schema, name, known := qualified(cast.GetTypeName().GetNames())
	return cast.GetArg(), known && (schema == "" || schema == systemSchema) && (name == "text" || name == "bool") && len(cast.GetTypeName().GetArrayBounds()) == 0
}

// literalsOf numbers the constants of a text by where they begin.
func literalsOf(text string) map[int32]int {
	out := make(map[int32]int)
	lexer := sqltoken.NewLexer([]byte(text), NewestMajor)
	for {
		t, err := lexer.Next()
		switch {
		case err != nil:
			return nil
		case t.Kind == sqltoken.EOF:
			return out
		case t.IsLiteral():
			out[int32(t.Start)] = len(out) + 1
		}
	}
}
