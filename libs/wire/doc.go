// Package wire frames messages of PostgreSQL's frontend/backend protocol in
// place and names their types.
//
// It is the hot path's part: nothing here copies or allocates. Messages that are
// rare are built and read with pgproto3.
//
// PostgreSQL documentation: "Frontend/Backend Protocol: Message Formats".
package wire
