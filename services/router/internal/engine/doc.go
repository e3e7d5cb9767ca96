// Package engine is the router's event loop: one goroutine on one thread that owns
// every client's and server's descriptor, performs what the sessions ask for, and
// feeds them what arrives.
//
// Everything here belongs to the loop unless it says otherwise. Other goroutines
// (connecting to servers, the classifier client, the bus, listeners' links) reach
// it only through its inbox.
//
// Order within one event: bytes go to a session, its actions are performed, and
// what they set free for other sessions is handed out afterwards (runReady), so
// that no session is entered while another one is in the middle of a step.
//
// Shutdown order: intake stops, idle sessions get 57P01, busy ones are given until
// the drain timeout, then the loop ends, then the goroutines around it.
package engine
