// Package judge says of a statement string whether it only reads, and what else
// it does: text in, verdict out, without any state.
//
// It promises to be wrong in one direction only. A statement reads if every node
// of its parse tree is of a kind listed here and every name in it (functions,
// operators, types, PostgreSQL's own relations) is on a reviewed list; whatever
// is not listed writes. So a node that a later parser adds, or a function nobody
// has looked at, costs a read on the primary and never a write on a replica.
//
// The verdict never depends on the value of a constant: texts of one template
// share a verdict (package sqltoken), and constants are not in a template.
//
// The lists hold what PostgreSQL 15 to 18 have in common. A name that an older
// server of these does not know may be a user's function there.
//
// What the parse tree cannot show is not judged here: which relation is a view or
// a sequence, which operator or overload a user has added. The README says what
// that means.
package judge
