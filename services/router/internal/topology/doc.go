// Package topology turns news of the servers into the table that routing decides
// by.
//
// News comes from the lagpoller (roles, health, positions) and from the router's
// own connections (a new run of a server, a refused connection). Positions count
// only within the run they were observed in: the first sign of a newer run sets
// the backend's position back to "nothing proven", and news of an older run is
// ignored. Old news of the current run is a safe lower bound and stays.
//
// The tracker belongs to the loop.
package topology
