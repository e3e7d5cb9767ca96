// Package upstream is one connection to a PostgreSQL server, as the loop holds
// it, and the making of one.
//
// Connecting and logging in are left to pgconn on an ordinary goroutine; what
// arrives at the loop is a bare descriptor with the facts learned on the way.
// Among them is the run of the server it belongs to: a position observed in one
// run proves nothing about a connection of another (package fence).
//
// A connection over TLS cannot be a bare descriptor: its TLS state is this process's. It
// is carried by a relay (package tlsrelay), whose goroutines belong to the Connector, and
// the loop gets the relay's end. Such a connection behaves the same but cannot be given
// to another process.
package upstream
