// Package sibling is how listeners of one host work together.
//
// They share their listening sockets: one that starts asks one that runs, so that a
// listener can be replaced without a moment at which a connection would be refused or
// reset. One that stops gives the others the sessions that are parked with it. And since
// a client's cancel request comes to whichever listener accepts it, and a router's
// sessions may be parked with any of them, each asks the others about sessions that it
// does not have.
//
// Each conversation has a connection of its own, to the instance's socket in the run
// directory. As everywhere, a session belongs to its sender until it is acknowledged.
package sibling
