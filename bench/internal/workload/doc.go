// Package workload says what one client of a benchmark does: which statements, in
// which protocol, and how it can tell a right answer from a stale one. It makes bytes
// and does no I/O.
//
// A [Workload] is data: statement templates and a function that chooses one
// transaction. A [Script] is one client's use of it. Scripts of one workload share
// nothing that changes, so each may belong to another goroutine.
package workload
