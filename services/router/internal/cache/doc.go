// Package cache keeps the verdicts the router has seen, by template key. It
// belongs to the loop: no lock, and no allocation on a hit.
package cache
