// Package judge says of a statement whether it only reads, and what else it does:
// parse tree and catalog in, verdict out, without any state.
//
// It promises to be wrong in one direction only. A statement reads if every node
// of its parse tree is of a kind listed here, and everything that a name in it may
// stand for (functions, operators, types, relations) is harmless by the Catalog;
// whatever is not listed or not known writes. So a node that a later parser adds,
// or a function nobody has looked at, costs a read on the primary and never a write
// on a replica.
//
// The verdict never depends on the value of a constant: texts of one template
// share a verdict (package sqltoken), and constants are not in a template.
//
// Static has lists of what PostgreSQL 15 to 18 have in common; Blind is the Catalog of
// a database that cannot be looked into, where only these names, written with their
// schema, are known for what they are.
package judge
