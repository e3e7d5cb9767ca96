// Package record keeps what was measured: a file of JSON lines, the first of which says
// on what machine, with what build and by what plan. Each other line is a whole group (one
// case of one round with all its targets), appended when it is complete. So a run that was
// interrupted goes on where it stopped, and pairs are always of one moment.
//
// A file is never continued on another machine, by another build or with another plan.
package record
