// Package consistency judges what clients of a replicated database have seen. Clients
// record every operation on a register (Log); Check looks for operations that a
// guarantee forbids: a read that misses the session's own write, one that goes back
// in time, a write that comes before what its session had read, an answer that no
// order of the operations explains.
//
// A register is a key with a value and a version. The server counts the version with
// every write, so the order of a key's values is known and need not be guessed;
// values are unique, so that a value names its write. Guarantees are judged for each
// key by itself.
//
// The end-to-end tests and the router's simulation use the same Check. It knows
// nothing of either: it would find fault with any database.
package consistency
