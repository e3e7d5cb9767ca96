package fence

import "slices"

// Mode is how fresh the reads of a session are, from the weakest promise to the
// strongest.
type Mode uint8

// The modes.
const (
	// Relaxed reads on any healthy replica.
	Relaxed Mode = iota
	// Bounded reads where what is shown is no older than a limit.
	Bounded
	// Strict reads only where the session's own writes are provably replayed.
	Strict
	// Causal is Strict, and never shows an older state than it has shown.
	Causal
	// Linear shows every write that was acknowledged to anybody before.
	Linear
)

var modeNames = [...]string{"relaxed", "bounded", "strict", "causal", "linear"}

// String gives the name used in the configuration and in SET pgpilot.fencing.
func (m Mode) String() string { return modeNames[m] }

// ParseMode reads what String writes.
func ParseMode(name string) (Mode, bool) {
	i := slices.Index(modeNames[:], name)
	return Mode(max(i, 0)), i >= 0
}

// Fenced reports whether reads wait for the session's own writes.
func (m Mode) Fenced() bool { return m >= Strict }

// Remembers reports whether a session must never see an older state than it has seen.
func (m Mode) Remembers() bool { return m >= Causal }
