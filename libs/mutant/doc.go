// Package mutant builds programs with one deliberate fault, to show that a test
// would notice it. The sources stay as they are: the go command is given changed
// copies (go help build, -overlay).
//
// A mutant names the text it replaces, which must be there exactly once. When the
// code has changed, the mutant has to follow: that it no longer applies is an
// error, never a pass.
package mutant
