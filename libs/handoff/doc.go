// Package handoff passes sessions between processes: a client's socket and the
// session's record, from the listener to a router, and later between routers.
//
// A connection carries length-prefixed messages; descriptors ride on a message's
// first byte (SCM_RIGHTS). Ownership follows acknowledgement: until the receiver
// has acknowledged a session, the sender owns the socket and may give it to
// somebody else; after it, the sender closes its copy. Received descriptors are
// owned by whoever received them, and every one of a message that is refused is
// closed here.
//
// Nothing in this package turns a descriptor into an os.File or a net.Conn: the
// finalizer of either would close a descriptor that another owner still uses, and
// os.File.Fd changes the mode of the description that both processes share.
package handoff
