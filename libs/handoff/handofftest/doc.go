// Package handofftest has the connections whose descriptors are passed, and makes the kernel
// refuse to pass them, for tests of those who do.
package handofftest
