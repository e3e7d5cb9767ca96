// Package startup reads what a client says before it is authenticated: requests
// for encryption, the startup packet, or a request to cancel (PostgreSQL
// documentation: "Message Flow", "Start-up", "SSL Session Encryption", "Canceling
// Requests in Progress").
//
// It reads exactly the bytes of a packet and not one more, so that whoever gets
// the socket next finds the rest in it, and it holds at most MaxPacket bytes of a
// client that has not proved anything yet. What is refused is refused in
// PostgreSQL's words (src/backend/tcop/backend_startup.c). Over TLS, what the client sends
// behind the packet may already lie in the TLS connection, which travels as a whole.
package startup
