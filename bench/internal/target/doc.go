// Package target starts what a benchmark compares: PostgreSQL itself, PgBouncer,
// pgpool-II and pgpilot, all in front of one lab.
//
// [Specs] is the list; a routing mode of pgpilot is one line of it. A [Stage] is what
// the targets share: the cluster, folders, the number of server connections. A [Target]
// is owned by the goroutine that starts and stops it, and its processes end with this
// one should it be killed.
//
// # The same number of server connections
//
// Stage.Connections is how many connections a target may have to servers, all
// servers together: PgBouncer has them all to the primary, the only server it knows;
// pgpilot has a third of them to each of the three servers. Direct clients, PgBouncer
// in session mode and pgpool-II cannot share connections between clients: they have one
// per client (pgpool-II one per client and server).
package target
