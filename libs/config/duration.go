package config

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration written as a string with a unit, such as "250ms",
// "5s" or "1m30s". Minutes and days may be written as PostgreSQL has them, too:
// "1min", "2d".
type Duration time.Duration

// D gives the value as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String gives the text form.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("want a duration with a unit, such as \"250ms\" or \"5s\", not %s", b)
	}
	v, err := parseDuration(s)
	if err != nil {
		return err
	}
	*d = v
	return nil
}

func parseDuration(s string) (Duration, error) {
	text := s
	if front, rest, ok := strings.Cut(s, "min"); ok && (rest == "" || rest[0] >= '0' && rest[0] <= '9') {
		text = front + "m" + rest
	}
	v, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		v, err = parseDays(days)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write a number with a unit, such as \"250ms\" or \"5s\"", s)
	}
	return Duration(v), nil
}

// parseDays reads a number of whole days.
func parseDays(s string) (time.Duration, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	return time.Duration(n) * 24 * time.Hour, err
}
