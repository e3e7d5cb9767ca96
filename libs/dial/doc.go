// Package dial connects pgpilot's services to PostgreSQL servers as the
// configuration says: to exactly the server named, encrypted as server_tls asks, with
// the TCP settings of the section tcp, and without regard to the PG… variables of the
// process's environment, which are not pgpilot's.
//
// Logging in is pgconn's. Encryption is negotiated here, on the connection itself,
// with libpq's rules (PostgreSQL documentation, "SSL Support"): "prefer" goes on
// without it where a server declines, and tries again without where a server
// refuses the login because of it. The TLS connection lies on a tlsrelay.Carrier, so
// that it can be handed to an event loop.
package dial
