// Package matrix is what is measured, as data: cases, the targets of each, and the plans
// that put them together. It also decides the order: rounds are interleaved, so that a
// machine that changes its speed changes it for all targets alike.
package matrix
