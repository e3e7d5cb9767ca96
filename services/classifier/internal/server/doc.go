// Package server answers routers on the classifier's socket (frames of package
// verdict). Known verdicts are answered at once and in order; others when they
// are found, so that a slow text holds up nobody else's answer.
//
// Each connection has a reader and a writer and at most a fixed number of
// judgements under way; beyond that it is not read, and its router's own limits
// apply. Serve owns all goroutines and waits for them.
package server
