// Package pool keeps account of server connections: who has one, which are idle,
// and who waits. It does no I/O and belongs to the loop.
//
// A pool is the connections to one backend for one user and database. Within it
// connections differ by the startup parameters they were made with; a session
// gets only one made with its own.
package pool
