package report

import (
	"fmt"
	"math"

	"golang.org/x/perf/benchmath"
)

// confidence of the intervals.
const confidence = 0.95

// Interval is a median with its confidence interval.
type Interval struct {
	Mid, Lo, Hi float64
	// N is how many values there are. Fewer than six give no interval: Lo and Hi are
	// infinite then.
	N int
}

// Summarize gives the median of some values. ok is false if there are none.
func Summarize(values []float64) (_ Interval, ok bool) {
	if len(values) == 0 {
		return Interval{}, false
	}
	s := benchmath.AssumeNothing.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), confidence)
	return Interval{Mid: s.Center, Lo: s.Lo, Hi: s.Hi, N: len(values)}, true
}

// Known says whether there were enough values for an interval.
func (i Interval) Known() bool { return !math.IsInf(i.Lo, 0) && !math.IsInf(i.Hi, 0) }

// Text writes it with a number of decimals.
func (i Interval) Text(decimals int) string {
	if !i.Known() {
		return fmt.Sprintf("%.*f", decimals, i.Mid)
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", decimals, i.Mid, decimals, i.Lo, decimals, i.Hi)
}
