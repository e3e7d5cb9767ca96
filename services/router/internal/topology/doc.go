// Package topology turns news of the servers into the table that routing decides
// by.
//
// News comes from the lagpoller (roles, health, positions) and from the router's
// own connections (a new run of a server, a refused connection). Positions count
// only within the run they were observed in: the first sign of a newer run sets
// the backend's position back to "nothing proven", and news of an older run is
// ignored. Old news of the current run is a safe lower bound and stays.
//
// What the lagpoller says of a server's health (Healthy, Fresh) and what the router's
// own connections say (Down, kept by a circuit breaker) are kept apart: either is
// enough to leave a replica alone, and neither overrules the other.
//
// Several lagpollers may speak, and see different parts of the network. Of each the
// latest word counts. The primary is the one that is named on the newest timeline; in
// doubt there is none. A backend is well if one of them can reach it and none has seen
// that it has left the primary's history.
//
// News are matched to backends by name, and by address where one name may stand for two
// servers. Nobody goes back to an earlier timeline of the primary's cluster before all that have been
// further are known to have gone back.
//
// The tracker belongs to the loop.
package topology
