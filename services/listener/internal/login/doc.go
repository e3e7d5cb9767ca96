// Package login takes a client from its first byte to AuthenticationOk, in the
// order and the words of a PostgreSQL server (PostgreSQL documentation: "Message
// Flow", "Start-up"; "SASL Authentication"), and gives the record of the session
// that begins.
//
// Everything runs on the goroutine of the caller, who owns the connection before
// and after. No more than one message of a client is held, and nothing behind it
// is read.
package login
