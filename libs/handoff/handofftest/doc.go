// Package handofftest makes the kernel refuse to pass descriptors, for tests of those who
// pass them.
package handofftest
