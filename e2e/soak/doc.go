// Package soak has sessions of several drivers do everything that a session can do,
// by chance and for a long time, through pgpilot with small pools, while server
// processes are terminated, statements are canceled and clients vanish.
//
// TestSoak judges every answer: each session knows what it has written and set. In the
// end nothing may be left: no session, no lent connection, no descriptor or goroutine
// more than before, nothing of a session in any pooled connection.
//
// make soak runs it for as long as wanted; make test for half a minute.
package soak
