// Package upstream is one connection to a PostgreSQL server, as the loop holds
// it, and the making of one.
//
// Connecting and logging in are left to pgconn on an ordinary goroutine; what
// arrives at the loop is a bare descriptor with the facts learned on the way.
// Among them is the run of the server it belongs to: a position observed in one
// run proves nothing about a connection of another (package fence).
package upstream
