// Package busserver runs the embedded NATS server that is pgpilot's bus.
//
// It has two doors. bus.sock in the run directory is for pgpilot's services: the
// peer must run as the same user and must sign with the directory's credential,
// because who may publish decides who may lie about a replica's position. The
// TCP port is for operators: without a credential a client lands in an account of
// its own that imports pgpilot's subjects, so it may listen, ask for snapshots and
// list the services, and nothing it sends or names as a reply subject reaches
// a service's subscription.
//
// Of the lagpollers of a run directory one has bus.cluster.listen, where other hosts look.
// When it has ended, another one moves there: it starts a second server at that address,
// and ends its first.
//
// The package owns the server, the listener and a pair of goroutines for each
// connection on bus.sock; Close ends and awaits them all.
package busserver
