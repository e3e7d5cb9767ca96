// Package session is the router's core: what happens to one client, as a state
// machine without sockets, clocks or goroutines.
//
// Events go in as method calls (bytes from the client, bytes from a server, a
// verdict, a connection granted or refused, a fence settled, a server lost, a
// cancel request); actions come out in Actions, to be performed in order by the
// owner, which then calls Reset. Bytes in actions alias the bytes of the event or
// the Env's scratch: they are valid until the owner's next call.
//
// Promises: every request of the client is answered exactly once and in order; a
// server connection is released only between transactions, with every answer
// received and no message half sent; a statement that may write makes the fence
// dirty before its first byte is forwarded; a read runs again elsewhere only if
// none of its answer has been shown.
//
// Prepared statements are the client's, not a connection's: on servers they have
// names made of their content, and they are parsed, unseen, wherever they are
// missing. Never do rows come in another shape than the client was told. A sequence
// of the extended protocol that is there up to its Sync and reads goes to a replica;
// of any other the messages go to the primary as they come.
//
// PostgreSQL documentation: "Frontend/Backend Protocol: Message Flow".
package session
