// Package sim is a simulation of a router among failing servers, for tests alone.
//
// The router's own packages decide (session, fence, route, topology); what the event
// loop does for them is done here in miniature, without sockets, clocks or
// goroutines. The cluster is a model: a primary with a write-ahead log of which only
// the flushed part is sent, replicas that receive, replay and show it step by step,
// crashes, restarts, promotions, replicas rebuilt from older backups, news that comes
// late. All that can happen next is put in order by chance, from a seed, so a course of
// events that breaks a guarantee can be repeated exactly.
//
// Package consistency judges what the clients have seen. Mutants of the router's
// packages (mutants_test.go) show that it would notice.
package sim
