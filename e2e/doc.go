// Package e2e proves, on the whole stack, what pgpilot promises: every test runs
// real PostgreSQL servers (package lab) and the four services as processes of
// their own, talks to them as a client or an operator would, and takes parts away
// while they work.
//
// A test is named for what it proves. Tests wait for conditions, never for time
// to pass, and assert nothing about speed. A rig, one stack with the means to
// hurt it, belongs to one test; its processes end with it, and with the test
// process, however that ends.
//
// Tests mostly wait for their servers and services, so they run beside each other
// (t.Parallel); go test -parallel says how many. The few that must be alone say why.
package e2e
