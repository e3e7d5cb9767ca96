// Package route decides where a statement runs: a pure function of what the
// statement needs and of a table of the backends. It does no I/O, takes no lock
// and allocates nothing.
//
// A read may run on a replica only if the table proves that the replica has
// replayed the session's fence. Whatever cannot be proven goes to the primary.
package route
