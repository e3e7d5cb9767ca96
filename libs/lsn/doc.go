// Package lsn holds positions in the write-ahead log: the LSN itself, the
// timeline it lies on, and the incarnation of the server that reported it.
//
// An LSN alone orders nothing. Two positions compare only on one timeline, and
// a server's positions grow only within one incarnation: after a crash or a
// restart replay starts again at an earlier position. Everything that promises
// "this server has replayed that write" therefore carries all three.
//
// PostgreSQL documentation: "WAL Internals", "pg_lsn Type", "System
// Administration Functions: Recovery Information Functions".
package lsn
