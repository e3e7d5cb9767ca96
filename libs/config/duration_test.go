package config

import (
	"testing"
	"time"
)

// Durations are read as Go writes them, and as PostgreSQL does where the unit is clear.
func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"250ms": 250 * time.Millisecond, "1m30s": 90 * time.Second, "1min": time.Minute, "1min30s": 90 * time.Second,
		"2d": 48 * time.Hour, "0s": 0, "-1s": -time.Second,
	} {
		got, err := parseDuration(text)
		if err != nil || got.D() != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "d", "1.5d", "-1d", "1d2h", "1mins", "99999d", "1 min"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
}
