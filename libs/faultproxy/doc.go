// Package faultproxy is a TCP proxy for tests that hurts what passes through it: it
// cuts connections, swallows bytes, delays and slows them, or resets a connection in
// the middle of a message. Faults can be changed at any time and hold for connections
// that exist and for new ones.
//
// Its address stays the same whatever happens to it, so that it can stand in a
// configuration in place of the server behind it.
package faultproxy
