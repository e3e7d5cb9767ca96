package fence

import (
	"testing"
	"time"
)

func TestNudge(t *testing.T) {
	var n Nudge
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		after          time.Duration
		fence, flushed int
		due            bool
	}{
		{0, 100, 100, false}, // flushed: replicas will be sent it
		{0, 101, 100, true},
		{NudgePause - 1, 200, 100, false},
		{1, 200, 100, true},
		{NudgePause, 200, 300, false},
		{0, 301, 300, true},
	} {
		now = now.Add(c.after)
		if got := n.Due(lsnOf(c.fence), lsnOf(c.flushed), now); got != c.due {
			t.Fatalf("%+v: due %v", c, got)
		}
	}
}
