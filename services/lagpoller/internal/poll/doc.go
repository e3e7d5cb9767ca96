// Package poll asks every backend where it stands, again and again, each by a
// goroutine of its own with one kept connection.
//
// A backend is asked for everything once per health.interval. While some router
// wants a position that a replica has not replayed yet, that replica is asked for
// its replay position alone every fencing.burst_interval, and each step forward is
// reported at once; a replica that stands still is asked less and less often.
// A backend is ill after health.failure_threshold failures in a row and is then
// tried again after growing pauses. One that only has no connection to spare is
// full, not ill.
//
// The Set owns the goroutines; Close ends and awaits them. A goroutine owns its
// connection.
package poll
