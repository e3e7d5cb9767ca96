// Package readcheck runs what is judged a read, on a primary and on a replica that has
// replayed everything, over a corpus of more than 20,000 statements: both give the same
// answer, and neither is left with anything. It holds tests only.
//
// The corpus is the judge's and the catalog's tables of verdicts, the statements that
// package tokencheck scans, calls of every function, operator and cast that the server
// has, reads of every relation, and all of these in other guises: white space, comments,
// letter case, quoting, constants, Unicode.
package readcheck
