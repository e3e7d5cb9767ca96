// Package routers hands sessions to the routers of this host and keeps track of
// which router has how many.
//
// There is one connection to each router. A session goes to the router with the
// fewest; it is this listener's until the router has acknowledged it. A router
// that refuses it, dies, or does not answer in time is passed over for another.
//
// For a session to have one owner at every moment, a router keeps its side of the
// bargain: it writes nothing to a client before it has sent the acknowledgement,
// and lets go of a session whose acknowledgement could not be sent. A connection
// is given up here by shutting down its reading side first: from then on the
// router's sends fail, while acknowledgements that had been sent are still read.
package routers
