package override

import (
	"strconv"
	"strings"
	"time"
)

// longest is the longest time that can be given.
const longest = 24 * time.Hour

// units are those of PostgreSQL's times, the longest first ("Setting Parameters:
// Parameter Names and Values").
var units = [...]struct {
	name string
	size time.Duration
}{
	{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}, {"us", time.Microsecond},
}

// parseDuration reads a time as servers do: a number, of milliseconds if no unit
// follows. It reads one as the configuration has it, too, such as 1m30s.
func parseDuration(s string) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	end := len(s)
	for end > 0 && s[end-1] >= 'a' && s[end-1] <= 'z' {
		end--
	}
	unit := time.Duration(0)
	switch name := s[end:]; name {
	case "":
		unit = time.Millisecond
	default:
		for _, u := range units {
			if u.name == name {
				unit = u.size
			}
		}
	}
	digits := strings.TrimRight(s[:end], " ")
	if unit == 0 || digits == "" || strings.Trim(digits, "0123456789.") != "" {
		return parseCompound(s)
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || n*float64(unit) > float64(longest) {
		return 0, false
	}
	d := time.Duration(n * float64(unit)).Truncate(time.Microsecond)
	return d, d > 0 || n == 0
}

// parseCompound reads a time of several units, or in minutes.
func parseCompound(s string) (time.Duration, bool) {
	d, err := time.ParseDuration(s)
	d = d.Truncate(time.Microsecond)
	return d, err == nil && s[0] != '+' && d > 0 && d <= longest
}

// formatDuration writes a time with the longest unit of which it is a multiple.
func formatDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	for _, u := range units {
		if d%u.size == 0 {
			return strconv.FormatInt(int64(d/u.size), 10) + u.name
		}
	}
	return d.String() // finer than parseDuration gives
}
