// Package want keeps what routers wait for: the highest position each has asked
// for lately. It wakes the pollers when one asks.
//
// A want is a hint to look sooner, never a promise: it expires by itself, so a
// router that dies or no longer waits costs nothing for long.
package want
