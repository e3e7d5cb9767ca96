// Package builtin is what has been reviewed of PostgreSQL's own functions: which
// of them may run on a replica, and what they leave in the server session.
//
// functions.txt names, for PostgreSQL 15 to 18, every volatile function and every
// stable one that is suspicious, in one of four groups. A test holds the table
// against pg_proc of every version it can find. Functions that are not in the
// table go by their volatility, and what is volatile or suspicious but not in
// the table, in a release that nobody has looked at, does not run on a replica.
//
// extensions.txt does the same for the few functions of common extensions whose
// volatility misleads.
package builtin
