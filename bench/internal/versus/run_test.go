package versus

import (
	"strings"
	"testing"
)

// Ratios are of rounds, not of medians: a machine that changes its speed changes both.
func TestTablePairsRounds(t *testing.T) {
	a, b := &contestant{name: "A"}, &contestant{name: "B"}
	for round := range 6 {
		speed := float64(1000 * (round + 1))
		a.samples = append(a.samples, sample{tps: speed, proxy: 10e-6})
		b.samples = append(b.samples, sample{tps: speed * 1.5, proxy: 5e-6})
	}
	b.samples[3].errors, b.samples[3].first = 2, "went wrong"
	var out strings.Builder
	c := &contestant{name: "C", cannot: "it has no such protocol"}
	table(&out, "point selects", []*contestant{b, c, a})
	for _, want := range []string{
		"point selects", "| B | 5250.0 | 1.50 (1.50–1.50) |", "| 5.0 | 0.50 (0.50–0.50) |", "| A | 3500.0 | 1.00 (1.00–1.00) |",
		"B: 2 errors, the first: went wrong", "\nC is not measured: it has no such protocol\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table does not say %q", want)
		}
	}
	if strings.Contains(out.String(), "| C") {
		t.Error("a row shows what was not measured")
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
