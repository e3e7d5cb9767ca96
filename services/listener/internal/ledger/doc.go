// Package ledger is the list of clients that are connected, from the end of their
// startup packet to the end of their session, whoever serves them. It gives out
// session ids and cancel keys, and it is where limits.max_clients is counted.
//
// Entries are known by session id and every change is idempotent, so that a router
// that reports its sessions again, or an end twice, cannot make the count drift.
package ledger
