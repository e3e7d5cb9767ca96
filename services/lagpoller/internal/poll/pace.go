package poll

import (
	"math/rand/v2"
	"time"
)

// backoff gives the pause after the given number of failures in a row. Below the
// threshold the backend is asked as usual. From then on the pause doubles from
// BaseBackoff to MaxBackoff, less up to a quarter by chance, so that servers that
// went away together are not asked together.
func (s Settings) backoff(failures int) time.Duration {
	if failures < s.FailureThreshold {
		return s.Interval
	}
	d := s.MaxBackoff
	if n := failures - s.FailureThreshold; n < 32 && s.BaseBackoff<<n>>n == s.BaseBackoff {
		d = min(d, s.BaseBackoff<<n)
	}
	if d < 4 {
		return d
	}
	return d - rand.N(d/4)
}

// A replica that has not moved for patience is asked less often during a burst:
// its replay is paused or held back, and asking a thousand times a second would
// take a good part of a core. The pause is then a fraction of the time it has
// stood still, at most slowest.
const (
	patience = 100 * time.Millisecond
	fraction = 20
	slowest  = 20 * time.Millisecond
)

// A poll that takes long says that the machine has other things to do: on one whose
// processors are busy its answer waits its turn. The pause behind it is leisure times as
// long, at most calmest, so that asking takes no more than a small part from those who
// are to be served.
const (
	leisure = 4
	calmest = 5 * time.Millisecond
)

// burstPause gives the pause between two polls of a burst, the latest of which took so
// long, of a replica that has stood still for a time.
func (s Settings) burstPause(still, took time.Duration) time.Duration {
	pause := max(s.Burst, min(leisure*took, calmest))
	if still >= patience {
		pause = max(pause, min(still/fraction, slowest))
	}
	return pause
}
