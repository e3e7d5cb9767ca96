// Package front accepts clients and sees each through its login to a router or to
// the door. A client has one goroutine, which owns its socket until a router has
// acknowledged it; Run owns the goroutines and waits for them.
//
// Order of a hand-over: the socket is duplicated, the original is closed, which
// takes it out of this process's epoll set, the duplicate is sent, and it is closed
// once a router has acknowledged it. If none does it is shut down, since a copy may
// still lie in a router's queue.
//
// A client over TLS keeps its goroutine for as long as its session lasts: what is handed
// over is one end of a relay (package tlsrelay), the other stays here. Such sessions end with the
// listener, each at its next safe point.
package front
