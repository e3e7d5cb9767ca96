package bus

import "strings"

// Version is the payload version this build writes.
const Version = 1

// Subjects. Those ending in a dot are prefixes.
const (
	// SubjectLag carries a Lag of one backend: SubjectLag + SafeName(backend).
	SubjectLag = "pgpilot.lag."
	// SubjectLagSnapshot answers a request with a LagSnapshot of all backends.
	SubjectLagSnapshot = "pgpilot.lag.snapshot"
	// SubjectTopology carries a Topology whenever it changes, and repeats it.
	SubjectTopology = "pgpilot.topology"
	// SubjectTopologySnapshot answers a request with the current Topology.
	SubjectTopologySnapshot = "pgpilot.topology.snapshot"
	// SubjectFenceWant carries a Want from each router that waits for an LSN.
	SubjectFenceWant = "pgpilot.fence.want"
	// SubjectVerdict carries a Verdict: SubjectVerdict + SafeName(database).
	SubjectVerdict = "pgpilot.verdict."
	// SubjectVerdictFlush carries a Flush.
	SubjectVerdictFlush = "pgpilot.verdict.flush"
	// SubjectVerdictSnapshot answers a request with VerdictSnapshots: at least one from
	// each classifier (Collect).
	SubjectVerdictSnapshot = "pgpilot.verdict.snapshot"
)

// beside reports whether a subject that matches the wildcard carries something
// else than the wildcard's messages.
func beside(wildcard, subject string) bool {
	switch subject {
	case SubjectLagSnapshot, SubjectVerdictFlush, SubjectVerdictSnapshot:
		return subject != wildcard
	}
	return false
}

// SafeName makes a name usable as one token of a subject: everything but ASCII
// letters, digits, _ and - becomes _, and the last tokens of the fixed subjects get
// a _ more. Payloads carry the exact name.
func SafeName(s string) string {
	switch s {
	case "":
		return "_"
	case "snapshot", "flush":
		return s + "_"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
}
