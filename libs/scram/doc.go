// Package scram is the server's side of SCRAM-SHA-256 and, over TLS,
// SCRAM-SHA-256-PLUS as PostgreSQL speaks them
// (PostgreSQL documentation: "SASL Authentication"; RFC 5802, RFC 7677). The
// exchange itself is github.com/xdg-go/scram; this package adds what PostgreSQL
// does around it: passwords prepared as its servers prepare them, refusals in its
// words, the login name taken from the startup packet rather than from the
// exchange, and a mock exchange for users that do not exist.
//
// It promises that nobody learns from an exchange which users exist. A salt
// depends on the user's name and the secret only, so it is the same for a user
// before and after they are added, in every process that shares the secret, and
// after a restart; a mock exchange does the same work as a real one and ends with
// the same answer.
//
// The framing of the messages (AuthenticationSASL and the rest) is the caller's.
package scram
