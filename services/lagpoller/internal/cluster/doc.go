// Package cluster is what is known of all servers, put together from what each
// said: who is the primary, how far each replica lags behind it, and whether
// any of that has changed. It does no I/O and reads no clock.
//
// Lag in time is measured with one clock, the lagpoller's. A sample is the
// primary's insert position with the moment at which it was asked for; a replica
// is as stale as the newest sample it has replayed is old. So an idle cluster is not
// stale, and a replica's own idea of time plays no part. Samples belong to one
// run of one primary and are dropped with it.
//
// A State is for one goroutine at a time; package news guards it.
package cluster
