// Package settings keeps the run-time parameters that a client has set in its
// session, so that every server connection lent to it has them, and knows whether it
// listens on a channel.
//
// Parse reads the statements that change them (SET, RESET) and those that decide
// whether a change stays (COMMIT, ROLLBACK TO, …); a Tracker follows them as the
// server answers; a List is what holds between transactions, and writes the
// statements that give it to a connection. Values are kept as the client wrote
// them: they mean on one server of a cluster what they mean on another.
//
// ParseOwn reads those about the router's own parameters, which follow the same
// rules and which no server sees.
//
// Promises: what Parse does not understand completely it refuses; a List never
// holds what a server has not accepted; equal hashes mean lists that are the same to
// servers.
//
// PostgreSQL documentation: "Server Configuration: Setting Parameters", "SQL
// Commands: SET".
package settings
