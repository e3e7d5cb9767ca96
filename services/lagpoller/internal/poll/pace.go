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

// burstPause gives the pause between two polls of a burst.
func (s Settings) burstPause(still time.Duration) time.Duration {
	if still < patience {
		return s.Burst
	}
	return max(s.Burst, min(still/fraction, slowest))
}
