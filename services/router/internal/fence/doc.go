// Package fence keeps what a session must see: the position of its last write,
// and whether that position is known yet.
//
// A statement that may write makes the fence dirty when it is forwarded, because
// it may commit whatever its answer says, or without one. After the answer, a
// probe of the primary's insert position settles it: the position a probe reads
// that started after the answer lies at or behind the statement's commit record.
// One probe settles every session that was answered before it started (Group), so
// a write costs no round trip of its own. The same probes settle what a session has
// read, before it may read elsewhere, and the arrival of reads that must see
// everybody's writes (State).
//
// A position belongs to one run of one server. A probe of another run says
// nothing about a write of the earlier one: that write may be lost, and the
// session is told so.
//
// Beside that: the token in which an application carries a fence (Token), whether to
// wait for a replica (Catchup), when to make the primary flush (Nudge), and whether
// the primary shows what replicas have shown (Crossing). Nothing here does I/O or
// reads a clock.
package fence
