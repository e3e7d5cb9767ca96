// Package contest compares the policies of package route on simulated replicas: the
// same arrivals, the same demands, and for each policy the response times that
// follow from its decisions.
//
// A replica is a number of cores that its statements share evenly, faster or slower
// than another. Arrivals are a Poisson process whose rate may change. Everything is
// drawn from seeded generators, so that a run gives the same figures on every
// machine; the only code that is not simulated is the decision itself.
//
// What it leaves out: locks, disks, caches that warm up, the network. It says which
// policy deals better with a kind of trouble, not how long a statement takes.
package contest
