// Package parking watches the sockets of sessions that no router has: a client that
// leaves meanwhile, and a server that ends the connection of a session that holds one,
// end the session.
//
// A parked socket is nobody else's: nothing is read from a client, and from a server
// only what it says when it ends. Whoever takes a session out of the lot has it as it
// was. Nothing is closed here.
package parking
