package judge

import (
	"strings"

	pgquery "github.com/pganalyze/pg_query_go/v6"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// What is set until the end of its transaction (SET LOCAL, set_config with the keyword TRUE) is
// undone by the server. Two things may come of it all the same: statements that are parsed in
// the meantime mean something else, and with a search_path that leads to temporary tables every
// table that is made is one, and stays. Who routes the statement can see to both if it knows
// that something is set; otherwise the statement has the effects called unfollowed.

// Local is an effect of functions, and of no verdict: they set something until the end of the
// transaction that matters when statements are parsed, or may.
const Local verdict.Effect = 1 << 31

// LocalEffect is what a function does that sets a setting of that name until the end of its
// transaction. An empty name is one that is not known.
func LocalEffect(name string) verdict.Effect {
	switch name = strings.ToLower(name); {
	case verdict.Seed(name):
		return verdict.Session | verdict.Indelible
	case verdict.Stays(name):
		return verdict.Session
	case verdict.AtParse(name):
		return Local
	}
	return 0
}

// locals is what a statement sets until the end of its transaction.
type locals struct {
	// names are where the names come from; of the calls of set_config, constants are known
	// by where they begin.
	names []name
	// own are the statement's effects without it, unfollowed those that it has besides where
	// nobody follows what it sets.
	own, unfollowed verdict.Effect
	// makes says that the statement makes something where search_path says.
	makes bool
}

// name is where one comes from: a constant by where it begins, or an operand.
type name struct {
	constant *pgquery.A_Const
	operand  verdict.Operand
}

func (l *locals) note(o verdict.Operand, unfollowed verdict.Effect) {
	l.names = append(l.names, name{operand: o})
	l.unfollowed |= unfollowed
}

// call notes a call of set_config.
func (l *locals) call(n *pgquery.FuncCall) {
	l.unfollowed |= verdict.Unproven
	var from name
	if arg, ok := withoutCast(n.GetArgs()[0]); ok {
		from.constant, from.operand.Param = arg.GetAConst(), int(arg.GetParamRef().GetNumber())
	}
	l.names = append(l.names, from)
}

// setsLocally notes SET LOCAL. It gives the effects that it has in any case.
func (l *locals) setsLocally(s *pgquery.VariableSetStmt) verdict.Effect {
	switch {
	case !s.GetIsLocal() || set(s) != 0:
	case verdict.Stays(strings.ToLower(s.GetName())):
		return verdict.Session
	default:
		l.note(verdict.Operand{Word: s.GetName()}, verdict.Session)
	}
	return 0
}

// asLocal gives the effects of a function that runs the statement.
func (l *locals) asLocal() (e verdict.Effect) {
	for _, n := range l.names {
		if n.constant != nil {
			e |= LocalEffect(n.constant.GetSval().GetSval())
		} else {
			e |= LocalEffect(n.operand.Word)
		}
	}
	return e
}

// operands gives where the names come from, as a verdict has them. literals gives literalsOf
// the text.
func (l *locals) operands(literals func() map[int32]int) (out []verdict.Operand) {
	for _, n := range l.names {
		o := n.operand
		if n.constant.GetSval() != nil {
			o = verdict.Operand{Literal: literals()[n.constant.GetLocation()]}
		}
		out = append(out, o)
	}
	return out
}
