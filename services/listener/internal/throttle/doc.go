// Package throttle slows down whoever guesses passwords: each failed login of a
// user from an address makes the next ones of that user from there wait longer, up
// to a bound, before their password is looked at. Waiting afterwards would not help, since a guesser can
// hang up when no answer comes at once.
//
// The wait is short enough (a second at most) that the user's clients with the right
// password behind the same address go on working.
package throttle
