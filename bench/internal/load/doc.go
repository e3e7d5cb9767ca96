// Package load is the load generator: clients that run a workload against one
// PostgreSQL address for a while and say how long each transaction took.
//
// # Two ways
//
// Closed loop (Options.Rate 0): each client starts its next transaction when the one
// before is answered. That finds out how much a target can do. The latencies are those
// of a saturated machine, and no statement about any other.
//
// Fixed rate: transactions arrive at each client as a Poisson process of its own, at
// times drawn beforehand. Latency counts from the arrival, whether or not the client was free
// then, and an arrival that was never served counts with the time it had waited. So a
// target that stalls is charged for everything that should have happened meanwhile
// (no coordinated omission).
//
// # What it costs
//
// The generator shares the processors with what it measures. It is a loop on epoll per
// thread, with prepared bytes and no decoding beyond message headers; connecting is left to
// pgconn. Result.CPU says what it used.
//
// # Who owns what
//
// A [Fleet] owns its connections. Open, Run and Close are called by one goroutine in
// this order, Run once. Run owns its threads and waits for them.
package load
