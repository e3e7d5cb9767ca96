// Package stacktest gives a Go test a pgpilot of its own: the four programs built
// from this checkout, a PostgreSQL cluster, free ports, a run directory; any number
// of them side by side. Everything ends with the test or, should the test process
// be killed, with the process.
package stacktest
