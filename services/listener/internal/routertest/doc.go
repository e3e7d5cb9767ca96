// Package routertest is a router for tests of the listener: it takes sessions over
// the real protocol and socket, greets their clients as a server would, and answers
// every query with its own id. It does each thing wrong on request.
package routertest
