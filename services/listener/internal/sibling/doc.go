// Package sibling is how listeners of one host share their listening sockets: one that
// starts asks one that runs, so that a listener can be replaced without a moment at
// which a connection would be refused or reset.
package sibling
