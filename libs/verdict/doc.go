// Package verdict is what the classifier says of a statement, and how it is
// carried: over the classifier's socket (compact frames), and on the bus (JSON).
//
// The zero Verdict is the safe one: a write that may do anything. A verdict is
// valid for every text with the same template key (package sqltoken) in the
// same database.
package verdict
