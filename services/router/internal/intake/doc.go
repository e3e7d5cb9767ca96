// Package intake is the router's side of the hand-over: it accepts listeners on
// the router's socket, receives clients' sockets with their sessions' records, and
// tells every listener when sessions end. Cancel requests are answered once they can
// stop nothing any more.
//
// A session belongs to the router from the moment it is acknowledged; the router
// acknowledges once the client's socket is in its loop. The other way round, a session
// that the router offers to a listener is the router's until the listener has
// acknowledged it.
package intake
