package load

import (
	"math"
	"testing"
	"time"
)

// A Poisson process: the mean of the gaps and their standard deviation are both 1/rate,
// and a tenth of the gaps is longer than ln(10)/rate.
func TestArrivalsArePoisson(t *testing.T) {
	const rate, n = 100.0, 50_000
	a := newArrivals(rate, 1, 1)
	var sum, squares, long float64
	last := time.Duration(0)
	for range n {
		gap := (a.next() - last).Seconds()
		last = a.next()
		a.advance()
		sum += gap
		squares += gap * gap
		if gap > math.Ln10/rate {
			long++
		}
	}
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	for name, got := range map[string]float64{"mean": mean * rate, "deviation": deviation * rate, "long gaps": long / n * 10} {
		if got < 0.95 || got > 1.05 {
			t.Errorf("%s is %.3f of what it should be", name, got)
		}
	}
}

func TestArrivalsRepeatAndDiffer(t *testing.T) {
	a, same, other := newArrivals(10, 1, 1), newArrivals(10, 1, 1), newArrivals(10, 1, 2)
	for range 10 {
		if a.next() != same.next() {
			t.Fatal("two schedules of one client differ")
		}
		a.advance()
		same.advance()
	}
	if newArrivals(10, 1, 1).next() == other.next() {
		t.Error("two clients have one schedule")
	}
}
