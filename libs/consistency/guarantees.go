package consistency

import (
	"fmt"
	"time"
)

// Guarantee is one promise.
type Guarantee uint8

// Guarantees. The first two bind every mode: they are about values that nobody could
// have read.
const (
	// MadeUp: a read found a value that nobody has written, or that was written later.
	MadeUp Guarantee = iota
	// Aborted: a read found the value of a write that had failed.
	Aborted
	// Forked: one version of a key had two values. For a moment after a failover that lost
	// writes, a replica that has them may still be read by sessions that need nothing
	// later: only linear forbids it.
	Forked
	// ReadYourWrites: a read sees the session's earlier writes.
	ReadYourWrites
	// MonotonicOnServer: a read sees no less than an earlier one of the session on the
	// same run of the same server.
	MonotonicOnServer
	// MonotonicReads: a read sees no less than an earlier one of the session.
	MonotonicReads
	// WritesFollowReads: a write comes behind what its session had read or written.
	WritesFollowReads
	// Bounded: a read sees every write that was acknowledged to anybody longer ago than
	// the bound.
	Bounded
	// Linearizable: every operation takes effect at one moment between its invocation
	// and its return.
	Linearizable
	guarantees
)

var guaranteeNames = [guarantees]string{
	"made up", "aborted", "forked", "read your writes", "monotonic on one server", "monotonic reads", "writes follow reads", "bounded staleness", "linearizable",
}

// String names the guarantee.
func (g Guarantee) String() string { return guaranteeNames[g] }

// Promise is what a mode guarantees.
type Promise struct {
	set [guarantees]bool
	// Bound belongs to Bounded.
	Bound time.Duration
}

// Promises gives a promise of the guarantees, and of those that bind every mode.
func Promises(gs ...Guarantee) Promise {
	var p Promise
	for _, g := range append(gs, MadeUp, Aborted) {
		p.set[g] = true
	}
	return p
}

// Has reports whether the guarantee is part of the promise.
func (p *Promise) Has(g Guarantee) bool { return p.set[g] }

// Mode is a fencing mode with its promise, as the documentation of consistency has
// it.
type Mode struct {
	Name    string
	Promise Promise
}

// Modes are the fencing modes, weakest first. bound is that of the mode bounded.
func Modes(bound time.Duration) []Mode {
	bounded := Promises(WritesFollowReads, Bounded)
	bounded.Bound = bound
	return []Mode{
		{"relaxed", Promises(WritesFollowReads)},
		{"bounded", bounded},
		{"strict", Promises(WritesFollowReads, ReadYourWrites, MonotonicOnServer)},
		{"causal", Promises(WritesFollowReads, ReadYourWrites, MonotonicOnServer, MonotonicReads)},
		{"linear", Promises(WritesFollowReads, ReadYourWrites, MonotonicOnServer, MonotonicReads, Forked, Linearizable)},
	}
}

// ModeOf gives a mode by its name.
func ModeOf(name string, bound time.Duration) (Mode, error) {
	for _, m := range Modes(bound) {
		if m.Name == name {
			return m, nil
		}
	}
	return Mode{}, fmt.Errorf("there is no fencing mode %q", name)
}
