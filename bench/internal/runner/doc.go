// Package runner runs a plan: it starts targets when they are first needed, measures one
// group after the other, and hands each complete group to the record.
package runner
