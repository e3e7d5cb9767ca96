// Package tokencheck compares package sqltoken with PostgreSQL itself, as pg_query carries it: the
// same tokens for every text, and the same parse tree, constants aside, for every pair of texts with
// one key. It holds tests only. It lives with the classifier because pg_query needs cgo, which libs
// must do without.
package tokencheck
