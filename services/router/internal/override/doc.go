// Package override is what a session asks of the router besides what the
// configuration says for all: where its reads go, in which fencing mode, how fresh.
//
// It is asked for in several places, of which the closer one wins: a hint in the
// statement, SET pgpilot.<name> in the session, the client's startup parameters, the
// user's entry in the configuration, the database's, and the keys for all. Values
// are what holds in the end; Set is what one place says of them.
//
// Promises: what Parse accepts is written in one way, so that values may be compared
// as text; what it refuses it says in PostgreSQL's terms, with what is allowed. It
// knows no sessions and no configuration.
//
// PostgreSQL documentation: "Server Configuration: Setting Parameters".
package override
