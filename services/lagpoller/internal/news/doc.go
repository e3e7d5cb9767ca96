// Package news tells the bus what package cluster knows: a message for each
// observation, the topology when it changes and again at every interval, and
// snapshots for whoever asks.
//
// The Desk owns the cluster's state and orders everything that is said about it:
// messages leave in the order of their sequence numbers. Nothing waits for the bus;
// news that cannot be sent is lost, the next is newer.
package news
