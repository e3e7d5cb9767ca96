// Package breaker decides from a router's own experience whether a server may be
// used: a circuit breaker, one for each server. It does no I/O and reads no clock.
//
// Closed, the server is used. Evidence that it cannot be used opens the breaker:
// one attempt to connect that was refused or not answered in time, or several
// connections lost in a short time. Open, nothing is sent to the server until a wait
// is over, which grows with every failure in a row and differs from router to router
// (jitter), so that they do not all come back at once. Then it is half-open: one
// probe goes there, never a client's statement, and its outcome closes the breaker
// or opens it again.
//
// What is no evidence is not reported here: a refused login, a server that is full
// (53300), an error or a timeout of a client's statement, a connection that the router
// closed itself.
//
// A breaker belongs to the loop.
package breaker
