package judge

import (
	pgquery "github.com/pganalyze/pg_query_go/v6"
)

// PostgreSQL calls a function for what looks like a column: (1::bigint).pg_notify
// is pg_notify(1), and with generate_series(1, 2) AS k, so is k.pg_notify, since
// the row of a function that returns a number is that number. ("Using Functions
// Named as Columns" in the chapter on composite types tells half of it.)
//
// So a name after an expression counts as a call if there is a function of that
// name. So does a name after the alias of a function in FROM, unless the text says
// that it is one of its columns: the function itself may name them as it likes. So
// does a name after that of a parameter, in the body of a function. After any other
// alias only functions of rows count.

// attributes notes what looks like columns until all aliases are known.
type attributes struct {
	// columns has the columns of the functions in FROM that the text names, by alias.
	columns map[string]map[string]bool
	used    []attribute
}

type attribute struct{ alias, name string }

// from notes a function in FROM and reports whether its alias is known.
func (a *attributes) from(n *pgquery.RangeFunction) bool {
	name := ""
	for _, item := range n.GetFunctions() {
		parts := item.GetList().GetItems()
		if len(parts) == 0 || parts[0].GetFuncCall() == nil {
			continue
		}
		if path := parts[0].GetFuncCall().GetFuncname(); len(path) > 0 {
			name = path[len(path)-1].GetString_().GetSval()
		}
	}
	alias := n.GetAlias().GetAliasname()
	if alias == "" {
		alias = name
	}
	if alias == "" {
		return false
	}
	if a.columns == nil {
		a.columns = make(map[string]map[string]bool)
	}
	known := make(map[string]bool)
	for _, c := range n.GetAlias().GetColnames() {
		known[c.GetString_().GetSval()] = true
	}
	for _, c := range n.GetColdeflist() {
		known[c.GetColumnDef().GetColname()] = true
	}
	if n.GetOrdinality() {
		known["ordinality"] = true
	}
	// An alias may be given more than once, in different places: what is not a column in
	// each of them may be a call.
	if before, again := a.columns[alias]; again {
		for c := range known {
			known[c] = before[c]
		}
	}
	a.columns[alias] = known
	return true
}

// column notes a reference such as x.y.
func (a *attributes) column(n *pgquery.ColumnRef) {
	f := n.GetFields()
	if len(f) < 2 || f[len(f)-1].GetString_() == nil {
		return // a column's own name, or x.*
	}
	a.used = append(a.used, attribute{f[len(f)-2].GetString_().GetSval(), f[len(f)-1].GetString_().GetSval()})
}
