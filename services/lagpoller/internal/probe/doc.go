// Package probe asks one PostgreSQL server where it stands: what it is, which run
// of it this is, and its log positions.
//
// A Conn is one kept connection of kind replication=database. Only there can a
// standby be asked for the timeline it replays (IDENTIFY_SYSTEM; the ordinary
// functions lag behind or know only what was received), and it takes SQL as well,
// by the simple query protocol alone (documentation, chapter "Streaming
// Replication Protocol"). A position is reported with a timeline only if the
// timeline was the same before and after it was read.
//
// The parts of an incarnation that cannot change under a living connection are
// read once, when it is opened: a restart and a crash restart both end it. Every
// exchange has a deadline; after any error the Conn is closed. A Conn is for one
// goroutine.
package probe
