// Package faults is the proof of the fence: many sessions over several routers write
// and read registers of a real cluster while everything that can fail is made to fail,
// and package consistency judges what they have seen.
//
// A run has a duration, a seed and a fencing mode. The seed decides what is done;
// what comes of it is up to the machine, so a run cannot be repeated exactly. go test
// makes short runs; make check-consistency makes long ones and says what it has done.
//
// Each deliberate fault of the router's code (mutants_test.go) must be found by the
// same means: a checker that finds nothing proves something only if it would have
// found something.
package faults
