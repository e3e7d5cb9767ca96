// Package fencecost measures what fencing costs an application: how many reads fall
// back to the primary, and how long reads and writes take, by fencing mode and share
// of writes, at a leisurely rate and as fast as they go; and what a writer pays for
// being fenced.
//
// Each client is one session. At a fixed rate its statements arrive as a Poisson
// process and latency counts from the arrival. Reads and writes are told apart, which
// the matrix of package runner does not do; the servers, the targets and what they
// count are its own (package target).
package fencecost
