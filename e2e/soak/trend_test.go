package soak

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// trend is a quantity over time, in minutes.
type trend struct {
	name, unit string
	at, size   []float64
}

func (t *trend) add(at, size float64) { t.at, t.size = append(t.at, at), append(t.size, size) }

// show writes a value.
func (t *trend) show(value float64) string {
	if t.unit == "" {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.2f %s", value, t.unit)
}

// growth is how a quantity has changed over some minutes. likely is that as a part of its
// level, which lies between low and high with a probability of 95 %.
type growth struct {
	level, perMinute  float64
	likely, low, high float64
	minutes           float64
}

// pieces is how many the last half is cut into.
const pieces = 30

// lastHalf gives the growth over the later half of the time.
func (t *trend) lastHalf() growth {
	from, _ := slices.BinarySearch(t.at, (t.at[0]+t.at[len(t.at)-1])/2)
	at, size := t.at[from:], t.size[from:]
	g := growth{level: median(size), minutes: at[len(at)-1] - at[0]}
	slope, low, high := theilSen(medians(at, size, pieces))
	part := g.minutes / max(g.level, 1e-9)
	g.perMinute, g.likely, g.low, g.high = slope, slope*part, low*part, high*part
	return g
}

// String tells of the last half.
func (t *trend) String() string {
	g := t.lastHalf()
	return fmt.Sprintf("%s %s, %+.3f a minute: %+.2f %% in %.1f minutes (%+.2f to %+.2f %%)",
		t.name, t.show(g.level), g.perMinute, 100*g.likely, g.minutes, 100*g.low, 100*g.high)
}

// medians cuts the time into equal pieces and gives, for each that has samples, the median
// of their times and of their sizes.
func medians(at, size []float64, n int) (x, y []float64) {
	start, span := at[0], at[len(at)-1]-at[0]
	for i := 1; i <= n; i++ {
		end := len(at)
		if i < n {
			end, _ = slices.BinarySearch(at, start+span*float64(i)/float64(n))
		}
		if end > 0 {
			x, y = append(x, median(at[:end])), append(y, median(size[:end]))
		}
		at, size = at[end:], size[end:]
	}
	return x, y
}

// theilSen gives the median of the slopes between any two points, and the interval that
// the slope is in with a probability of 95 % (Sen 1968, by Kendall's variance): without
// limits where the points are too few.
func theilSen(x, y []float64) (slope, low, high float64) {
	var slopes []float64
	for i := range x {
		for j := range i {
			slopes = append(slopes, (y[i]-y[j])/(x[i]-x[j]))
		}
	}
	low, high = math.Inf(-1), math.Inf(1)
	if len(slopes) == 0 {
		return 0, low, high
	}
	slices.Sort(slopes)
	n := float64(len(x))
	wide := 1.96 * math.Sqrt(n*(n-1)*(2*n+5)/18)
	below := int((float64(len(slopes))-wide)/2) - 1 // the place of the lower limit
	if below >= 0 {
		low, high = slopes[below], slopes[len(slopes)-1-below]
	}
	return median(slopes), low, high
}

// median gives the middle one, of an even number the mean of both.
func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	n := len(sorted)
	return (sorted[n/2] + sorted[(n-1)/2]) / 2
}

// What a heap does, its breath and a few outliers, hides neither growth nor that there is none.
func TestGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		size func(minute float64) float64
		want float64 // what it has grown by over the last ten of twenty minutes
	}{
		"a level":                     {func(float64) float64 { return 20 }, 0},
		"a level reached in the half": {func(m float64) float64 { return 20 * min(1, 0.8+m/40) }, 0},
		"steady growth":               {func(m float64) float64 { return 20 + 0.04*m }, 0.4},
		"steady decline":              {func(m float64) float64 { return 20 - 0.04*m }, -0.4},
	} {
		t.Run(name, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(1, 2))
			var all trend
			for at := 0.0; at <= 20; at += 1. / 240 {
				size := c.size(at) + chance.Float64() + chance.NormFloat64()/4
				if chance.IntN(50) == 0 {
					size += 10
				}
				all.add(at, size)
			}
			g := all.lastHalf()
			if low, high := g.low*g.level, g.high*g.level; low > c.want || high < c.want || high-low > 0.2 {
				t.Errorf("%+.3f to %+.3f, want %+.3f in between and no more than 1 %% of the level between them", low, high, c.want)
			}
			if math.Abs(g.minutes-10) > 0.1 {
				t.Errorf("the last half has %v minutes", g.minutes)
			}
		})
	}
}

// Too few points prove nothing.
func TestGrowthOfFewPoints(t *testing.T) {
	for n := 1; n < 4; n++ {
		var few trend
		for i := range n {
			few.add(float64(i), float64(i))
		}
		if g := few.lastHalf(); !math.IsInf(g.low, -1) && g.minutes > 0 {
			t.Errorf("%d points: %+v", n, g)
		}
	}
}
