// Package refusal is how the listener turns a client away: an ErrorResponse of
// severity FATAL in PostgreSQL's words, after which the connection is closed
// (PostgreSQL documentation: "Message Flow", "Error and Notice Message Fields").
package refusal
