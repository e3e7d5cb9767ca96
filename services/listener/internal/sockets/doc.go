// Package sockets opens what clients connect to: the TCP address and the
// PostgreSQL-style Unix socket of the configuration, or instead of both whatever
// sockets systemd passes.
//
// Closing a Set lets go of the address and of the Unix socket's lock at once, so
// that the next listener can have them while this one still finishes logins.
package sockets
