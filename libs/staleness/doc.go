// Package staleness says how old what a replica shows is, measured and not guessed.
//
// A sample is the primary's insert position and the moment at which it was asked for.
// Whatever was acknowledged before that moment lies before that position, so a replica
// that has replayed it shows all of that: it is as of the newest sample it has
// replayed. So an idle cluster is not stale, and a replica that has never replayed is
// not fresh, and no server's idea of time plays a part. There is no interpolation.
// Samples belong to one run of one primary and are dropped with it.
//
// One clock measures. Between processes of one host it is CLOCK_BOOTTIME, which goes
// on while the machine sleeps and is never set; a Clock's name tells readings of
// another machine, another boot or another time namespace apart.
package staleness
