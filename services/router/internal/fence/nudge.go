package fence

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// NudgePause is the least time between two nudges.
const NudgePause = 200 * time.Millisecond

// Nudge decides when the primary is to be made to flush. Its insert position, which
// a fence is, can lie in WAL that nobody has asked to be flushed, the tail of an
// idle transaction for example, and replicas are sent only what is flushed: without
// a nudge they reach it when the server's own timers expire, seconds later. Any
// record written behind it ends that. The zero value is ready.
type Nudge struct {
	last time.Time
}

// Due reports whether to nudge now, and notes it: a read waits for fence, or has gone
// to the primary for the lack of it, and the primary was last seen to have flushed up
// to flushed.
func (n *Nudge) Due(fence, flushed lsn.LSN, now time.Time) bool {
	if flushed >= fence || !n.last.IsZero() && now.Sub(n.last) < NudgePause {
		return false
	}
	n.last = now
	return true
}
