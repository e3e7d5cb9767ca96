// Package epoch numbers the flushes of verdicts so that each has a higher number than all
// before it, whatever the clock says. The highest is in a file of the run directory that
// all classifiers share: one that starts while no other is there to tell it goes on from
// where the last one was. What a clock that was set back would number is heard by routers as
// old news, and they would go on with verdicts that do not hold.
//
// Numbers come from the clock, in microseconds, where that is ahead: so they are new even if
// the file is lost, and on machines that know nothing of each other yet.
package epoch
