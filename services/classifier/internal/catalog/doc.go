// Package catalog knows what names stand for in each database: which functions
// may run on a replica, and which views, policies, types, operators and tables
// lead to one that may not.
//
// # What is safe
//
// A database's catalog becomes a graph: an object uses others, as a view uses a
// function, or a table the checks of its columns' domains. What may not run on a
// replica by itself spoils all that use it, however indirectly. The edges come
// from pg_depend, from the columns of the catalogs that name functions, and from
// the node trees of rules, policies, checks and bodies, since pg_depend does not
// mention PostgreSQL's own functions. The text of SQL functions is parsed and
// judged like any statement; of a PL/pgSQL function every word and operator counts
// as a use of whatever has that name. The README lists the rules.
//
// # Who owns what
//
// A Library keeps a Snapshot of each database it was asked about. A Snapshot never
// changes. Each database has a goroutine with one connection, which compares a
// fingerprint of the catalog now and then, reads the catalog when it changed, and
// swaps the Snapshot. Close ends the goroutines and waits for them.
package catalog
